"""Tables as Markdown and curves as SVG, a module an experiment."""
