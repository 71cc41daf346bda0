"""One rule a file; file, function, trace line and golden file share one name."""
