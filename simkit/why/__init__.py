"""Why jobs waited: a run is made again from its run.json, and watched; see `simkit.why.jobs`."""
