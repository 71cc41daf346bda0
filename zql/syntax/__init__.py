"""Syntax: text to AST. `parser` is the only module that knows Lark."""
