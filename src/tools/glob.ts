const TOKEN = /\*\*\/|\*\*|\*|\?|\{[^{}]*\}|[^*?{]+|\{/g;

/**
 * A glob as a regular expression over whole paths: `*` and `?` stay within a name, `**` crosses folders, `{a,b}` chooses.
 * Without a slash it is about the name alone, in whatever folder. Only for a thread that can be stopped: many stars are slow.
 */
export function globPattern(glob: string): RegExp {
  const body = (glob.match(TOKEN) ?? []).map(tokenPattern).join('');
  return new RegExp(`^${glob.includes('/') ? '' : '(?:.*/)?'}${body}$`, 's');
}

function tokenPattern(token: string): string {
  if (token === '**/') return '(?:.*/)?';
  if (token === '**') return '.*';
  if (token === '*') return '[^/]*';
  if (token === '?') return '[^/]';
  if (token.startsWith('{') && token.endsWith('}')) {
    return `(?:${token
      .slice(1, -1)
      .split(',')
      .map((choice) => (choice.match(TOKEN) ?? []).map(tokenPattern).join(''))
      .join('|')})`;
  }
  return token.replace(/[\\^$.*+?()[\]{}|]/g, '\\$&');
}
