"""Storage: files, their formats and schemas. `files` is the only module that knows fsspec."""
