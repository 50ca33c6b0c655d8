"""The tables of the index. All of it is derived from the diary files; a schema that is not this one is built anew."""

from __future__ import annotations

from app.memory.index.database import Tables

SCHEMA_VERSION = 3

APPLICATION_ID = 0x5643504D  # "VCPM"

WORD_COLUMNS = ("body", "tags", "names", "place")
"""Columns of the table of words; ``place`` holds the number of the notebook, for filters only."""

WORD_WEIGHTS = (1.0, 2.0, 1.5, 0.0)
"""How much a word counts in each of them."""

SCHEMA = """
CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
-- generation grows with every commit that touches the notebook: caches carry it in their keys (3.7, 11.6)
CREATE TABLE notebooks (
  id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, generation INTEGER NOT NULL DEFAULT 0,
  notes INTEGER NOT NULL DEFAULT 0, chunks INTEGER NOT NULL DEFAULT 0  -- how many it has; check() compares
);
CREATE TABLE notes (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  notebook_id INTEGER NOT NULL REFERENCES notebooks(id),
  path TEXT NOT NULL UNIQUE,          -- relative to the diary root, with '/'
  sha256 BLOB NOT NULL, size INTEGER NOT NULL, mtime_ns INTEGER NOT NULL,
  day INTEGER,                        -- proleptic ordinal of its date, NULL when unknown
  author TEXT NOT NULL, title TEXT NOT NULL, has_heading INTEGER NOT NULL,
  body_start INTEGER NOT NULL, tag_line_start INTEGER NOT NULL,  -- characters of its text (app.protocol.diary_head)
  fault TEXT NOT NULL DEFAULT ''      -- why it could not be read, for people
);
CREATE INDEX notes_by_notebook ON notes(notebook_id, day);
CREATE TABLE chunks (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  note_id INTEGER NOT NULL REFERENCES notes(id) ON DELETE CASCADE,
  ordinal INTEGER NOT NULL,           -- 0, 1, … inside its note
  start INTEGER NOT NULL, end INTEGER NOT NULL,  -- characters of the note's text
  tokens INTEGER NOT NULL,            -- estimate (M7)
  text TEXT NOT NULL,                 -- the original slice
  embed_sha BLOB NOT NULL             -- SHA-256 of the embedded text (D80)
);
CREATE INDEX chunks_by_note ON chunks(note_id, ordinal);
CREATE INDEX chunks_by_sha ON chunks(embed_sha);
-- display: the least of the forms in which notes write it; embed_sha is that of this form
CREATE TABLE tags (id INTEGER PRIMARY KEY, folded TEXT NOT NULL UNIQUE, display TEXT NOT NULL, embed_sha BLOB NOT NULL);
CREATE TABLE note_tags (
  note_id INTEGER NOT NULL REFERENCES notes(id) ON DELETE CASCADE,
  tag_id INTEGER NOT NULL REFERENCES tags(id), place INTEGER NOT NULL,
  display TEXT NOT NULL,              -- as this note writes it
  PRIMARY KEY (note_id, tag_id)
) WITHOUT ROWID;
CREATE INDEX note_tags_by_tag ON note_tags(tag_id, note_id);
-- One row for each chunk, rowid = its id, words of index.words with blanks between; each is one token of this table.
CREATE VIRTUAL TABLE words USING fts5(
  body, tags, names, place, tokenize = "ascii tokenchars '-_.+#@/:'"
);
"""

INDEX_TABLES = Tables("index", SCHEMA, SCHEMA_VERSION, APPLICATION_ID)
