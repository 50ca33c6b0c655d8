// What the panel's editor takes from CodeMirror, in one module.
export { EditorView, keymap, lineNumbers, placeholder, highlightActiveLine, drawSelection } from "@codemirror/view";
export { EditorState, Compartment, StateEffect } from "@codemirror/state";
export { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
export { search, searchKeymap, highlightSelectionMatches } from "@codemirror/search";
export { autocompletion, completionKeymap } from "@codemirror/autocomplete";
export { HighlightStyle, syntaxHighlighting, StreamLanguage, bracketMatching } from "@codemirror/language";
export { tags } from "@lezer/highlight";
export { markdown } from "@codemirror/lang-markdown";
export { json } from "@codemirror/lang-json";
export { properties } from "@codemirror/legacy-modes/mode/properties";
export { MergeView } from "@codemirror/merge";
