"""Studies: published papers rerun figure by figure, each claim measured and judged."""
