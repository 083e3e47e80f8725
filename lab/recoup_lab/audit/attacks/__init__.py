"""Attacks on what Recoup releases: can anybody tell whether one record was there?"""
