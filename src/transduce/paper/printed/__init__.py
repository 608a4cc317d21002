"""Results as Markdown tables and SVG plots, a module for each experiment."""
