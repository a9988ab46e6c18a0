/** What makes bash do more than one plain command: chains, pipes, redirections, substitutions. */
const CONTROL = /[;&|<>`\n\r]|\$[({]/;

/** What makes it hard to say where a single quote begins and ends. */
const TWISTS = /[\\"#$`]/;

/**
 * Whether a command is one plain command, so that a pattern which fits its beginning fits all it does. Text in single quotes is
 * text only where nothing else in the command may turn a quote into something else; in doubt it is not plain.
 */
export function isPlain(command: string): boolean {
  if (!CONTROL.test(command)) return true;
  return !TWISTS.test(command) && !CONTROL.test(command.replace(/'[^']*'/g, ''));
}

/** Where one command of a line may end and the next begin; and the same inside of quotes: `bash -c "a; b"` runs both. */
const BETWEEN = [/[;&|\n\r(){}`<>]+|\$(?=[({])/, /[;&|\n\r(){}`<>"']+|\$(?=[({])/];
const BEFORE =
  /^(?:\s|!|(?:then|do|else|elif|if|while|until|time|exec|command|builtin|nohup|env|sudo)\s|[A-Za-z_]\w*=\S*\s)+/;

/** All that may be a command in it, and the whole: what a rule that holds something back is tried on. Rather too many than too few. */
export function commandsIn(command: string): string[] {
  const parts = BETWEEN.flatMap((between) => command.split(between)).map((part) => part.trim());
  const bare = parts.map((part) => `${part} `.replace(BEFORE, '').trim());
  const spaced = [...parts, ...bare].map((part) => part.replace(/\s+/g, ' '));
  return [...new Set([command, ...parts, ...bare, ...spaced])].filter((part) => part !== '');
}
