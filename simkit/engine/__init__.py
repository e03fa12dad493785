"""The engine: the SimPy simulation that replays a workload under a policy."""
