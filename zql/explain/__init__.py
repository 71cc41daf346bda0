"""EXPLAIN: the levels of a query's compilation, as text, as JSON and as Mermaid flowcharts."""
