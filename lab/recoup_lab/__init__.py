"""What proves Recoup: attacks on its privacy, its speed beside other libraries, and the paper's evaluation.

The library never imports it; `recoup audit`, `recoup bench` and `recoup experiment` are found where it is installed.
"""
