/** What goes and what comes, line by line, as a diff shows it. */
export function changed(before: string, after: string): string {
  return [...marked('-', before), ...marked('+', after)].join('\n');
}

const marked = (sign: string, text: string) =>
  text === ''
    ? []
    : text
        .replace(/\n$/, '')
        .split('\n')
        .map((line) => `${sign} ${line}`);
