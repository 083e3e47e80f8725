"""Settings that every test shares."""

from hypothesis import settings

# The first call of a compiled kernel takes longer than hypothesis's default deadline; derandomised, so that a red test
# is red for everybody.
settings.register_profile("recoup", deadline=None, derandomize=True, max_examples=60, print_blob=True)
settings.load_profile("recoup")
