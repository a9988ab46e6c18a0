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
const BETWEEN = [
  /(?:[;&|\n\r(){}`<>]|\s-(?:exec|execdir|ok|okdir)\s)+|\$(?=[({])/,
  /(?:[;&|\n\r(){}`<>"']|\s-(?:exec|execdir|ok|okdir)\s)+|\$(?=[({])/,
];
const BEFORE = /^(?:\s|!|(?:then|do|else|elif|if|while|until|time|coproc)\s|[A-Za-z_]\w*\+?=\S*\s)+/;
/** Programs that run what stands behind them and their options. */
const RUNNERS =
  /^(?:builtin|busybox|chroot|chrt|command|doas|env|eval|exec|flock|ionice|nice|nohup|nsenter|parallel|runuser|script|setarch|setpriv|setsid|stdbuf|su|sudo|taskset|time|timeout|toybox|unshare|watch|xargs|(?:ba|da|k|z|a)?sh)$/;
const REDIRECTION = /(?:\d*|&)(?:>>|>\||>&|<&|<<<|<>|>|<)\s*[^\s;&|()<>]+/g;

/** All that may be a command in it, and the whole: what a rule that holds something back is tried on. Rather too many than too few. */
export function commandsIn(command: string): string[] {
  const joined = command.replace(/\\\r?\n/g, '');
  const lines = [joined, joined.replace(REDIRECTION, ' '), joined.replace(/\$\{?IFS\}?/g, ' '), spread(joined)];
  const parts = [...new Set(lines)].flatMap((line) => BETWEEN.flatMap((between) => line.split(between)));
  const found = new Set<string>([command]);
  for (const part of parts) {
    const bare = `${part} `.replace(BEFORE, '').trim();
    for (const text of [part.trim(), bare, unquoted(bare)]) {
      for (const one of runBy(text.replace(/\s+/g, ' '))) found.add(one);
      found.add(text);
    }
  }
  found.delete('');
  return [...found];
}

/** The command as it stands, by its bare name, and whatever a program that only runs others may be given to run. */
function runBy(command: string): string[] {
  const words = command.split(' ');
  const own = named(command);
  if (!RUNNERS.test(programName(words[0] ?? ''))) return own;
  let at = 0;
  const given = words.slice(1).flatMap((_, place) => {
    at += (words[place]?.length ?? 0) + 1;
    return named(command.slice(at, at + LOOKED_AT));
  });
  return [...own, ...given];
}

/** How much of each is looked at: a long command has very many words, and what it is stands at its beginning. */
const LOOKED_AT = 300;

function named(command: string): string[] {
  const [program = ''] = command.split(' ', 1);
  const plain = programName(program);
  return plain === program ? [command] : [command, plain + command.slice(program.length)];
}

const programName = (word: string): string => (word.endsWith('/') ? word : (word.split('/').at(-1) ?? word));

/** `r''m`, `"rm"`, `\rm` and `$'rm'` are `rm`. */
const unquoted = (text: string): string => text.replace(/\$(?=['"])|["'\\]/g, '');

/** `{rm,x}` is `rm x`. */
const spread = (text: string): string =>
  text.replace(/\{([^{}\s]*,[^{}\s]*)\}/g, (_, inner: string) => inner.replaceAll(',', ' '));
