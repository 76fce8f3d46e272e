"""The figures, one file per kind: settings, cells, trial, summary and drawing of a figure together."""
