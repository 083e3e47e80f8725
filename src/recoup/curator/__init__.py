"""The curator's side of the wall: the only folder that opens records; queries and kernels are lent them for sums."""
