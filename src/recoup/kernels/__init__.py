"""numba kernels: arrays in, arrays out, no allocation in loops, no fastmath, so that machines agree to the last bit.

The constants here are those that the domain and the kernels share. They lie with the kernels because what is kept of a
compiled function notices a change of any file of this folder, and of no other.
"""

GRID = 2.0**30  # steps of fixed-point records in a unit
# A projected record lands this little inside a ball, so that no floating-point error can leave the ball; the test for
# "already inside" is laxer than the target, so that clipping twice is the same as clipping once.
INSIDE = 1.0 - 2.0**-40
ALREADY = 1.0 - 2.0**-41
