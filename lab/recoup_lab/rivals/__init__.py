"""Other systems beside ours on the same tables: synthetic data then k-means, diffprivlib, and what the library has.

Nothing here is private: noise of ours is simulated, bounds may be those of the file, and scores are computed on the
records. Systems that need libraries of their own run in an environment of their own, as a process.
"""
