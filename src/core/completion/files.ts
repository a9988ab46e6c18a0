/** File names, the most telling words a plan and a tool call share: "Update setup.go" and an edit of cmd/cli/setup.go. */

/** The beginning of an argument tells what it is about; a script of a thousand lines tells no more than its head. */
const TELLING = 400;
const RUN = /[\w.-]+/g;
const ENDING = /(?<=\w)\.[a-z][a-z0-9]{0,4}(?!\w)/gi;

/** Of each run of letters, dots and dashes what comes up to its last ending. Run and ending apart: together they take the square. */
function namesIn(text: string): Set<string> {
  const names = new Set<string>();
  for (const [run] of text.matchAll(RUN)) {
    let end = 0;
    for (const { 0: ending, index } of run.matchAll(ENDING)) end = index + ending.length;
    if (end > 0) names.add(run.slice(0, end).toLowerCase());
  }
  return names;
}

/** Names of the files that a description mentions, without their folders. */
export const filesOfStep = (description: string): Set<string> =>
  description.includes('.') ? namesIn(description) : new Set();

/** Names of the files that the arguments of tool calls point at, without their folders. */
export const filesOfArgs = (args: readonly string[]): string[] =>
  args.flatMap((arg) => (arg.includes('.') ? [...namesIn(arg.slice(0, TELLING))] : []));

/** An argument as words: of each path only its last two parts, for the folders above are the same in every step. */
export const argWords = (arg: string): string =>
  arg
    .slice(0, TELLING)
    .split(/\s+/)
    .map((token) => token.split(/[/\\]/).slice(-2).join(' '))
    .join(' ');
