/** The session at the top of a family: `demo` of `demo~step_1~step_2`. */
export const rootOf = (name: string): string => name.split('~', 1)[0] ?? name;

/** The session this one works for; undefined where it is nobody's child. */
export function parentOf(name: string): string | undefined {
  const at = name.lastIndexOf('~');
  return at > 0 ? name.slice(0, at) : undefined;
}

/** The session at the top of a family, and each one below it down to this one. */
export function lineage(name: string): string[] {
  const parent = parentOf(name);
  return parent === undefined ? [name] : [...lineage(parent), name];
}
