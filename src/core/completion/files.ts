/** File names, the most telling words a plan and a tool call share: "Update setup.go" and an edit of cmd/cli/setup.go. */

/** The beginning of an argument tells what it is about; a script of a thousand lines tells no more than its head. */
const TELLING = 400;
const NAME = /[\w.-]*\w\.[a-z][a-z0-9]{0,4}(?![\w])/gi;

const namesIn = (text: string): Set<string> => new Set((text.match(NAME) ?? []).map((name) => name.toLowerCase()));

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
