"""How results, errors and run summaries look: text for people, streams for programs."""
