"""Execution: DuckDB (`engine`), Python functions (`udf`), tasks, and the joblib pool (`pool`)."""
