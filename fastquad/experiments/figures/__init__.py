"""The figures, one file a kind: settings, cells, trial, summary and drawing of a figure together."""
