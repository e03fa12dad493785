"""Networks, their derivatives and optimisers, shared by the learners."""
