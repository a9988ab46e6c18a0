/**
 * `{{name}}` in a template. A backslash before it makes it plain text, and a backslash before that one is one; nothing else is
 * special, so `{{.Names}}` and `${{ x.y }}` stay as they are.
 */
// The look behind keeps a long run of backslashes from being tried from each of them.
const PLACE = /(?<!\\)(\\*)(\{\{[ \t]*([A-Za-z_][A-Za-z0-9_]*)[ \t]*\}\})/g;

/** The text with each place filled in once: what a value says is never looked at again. */
export function filled(text: string, value: (name: string) => string): string {
  return text.replace(PLACE, (_, slashes: string, literal: string, name: string) => {
    const kept = slashes.slice(0, slashes.length >> 1);
    return kept + (slashes.length % 2 === 1 ? literal : value(name));
  });
}

/** The names a text has places for, each once. */
export function placesIn(text: string): string[] {
  const names = new Set<string>();
  filled(text, (name) => {
    names.add(name);
    return '';
  });
  return [...names];
}

/** Text that `filled` gives back as it is. */
export function escaped(text: string): string {
  return text.replace(PLACE, (_, slashes: string, literal: string) => `${slashes}${slashes}\\${literal}`);
}
