"""A judge of the controller `backfill`: the goals that it was built for, an ablation, and cells beyond both."""
