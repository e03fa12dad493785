"""The independent replay: a pool under a documented policy, without code of engine or policies."""
