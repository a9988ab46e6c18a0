import { Config, Settings } from '../protocol/config.ts';
import { UserError } from '../protocol/errors.ts';
import { placeOf, repeatedKeys } from '../protocol/json-position.ts';
import { type NameFault, nameFaults } from '../protocol/tool-names.ts';
import { withoutKeys } from '../protocol/variable-name.ts';
import { at, type Complaint, complaints, parseJson, type Schema, whyNoJson } from './complaints.ts';

/** Settings that hold, and what in the file was not understood and left out. */
export type Checked<T> = { value: T; warnings: string[] };

/** Checks the text of `agentd.json`. Throws UserError naming file, line, what was wanted and what came. */
export const checkConfig = (text: string | undefined, file: string): Checked<Config> => check(text, file, Config);

/** Checks the text of a `session.json`, likewise. */
export const checkSettings = (text: string | undefined, file: string): Checked<Settings> => check(text, file, Settings);

function check<T extends Config | Settings>(text: string | undefined, file: string, schema: Schema<T>): Checked<T> {
  const source = (text ?? '{}').replace(/^\uFEFF/, '');
  const settings = parsedSettings(source, file);
  const warnings: string[] = [];
  for (;;) {
    const result = schema.safeParse(settings);
    if (result.success) {
      checkNames(result.data, source, file);
      return { value: result.data, warnings };
    }
    const found = complaints(result.error.issues, settings, schema);
    const faults = found.filter((complaint) => !isNote(complaint) && !isOfServer(complaint));
    if (faults.length > 0) throw new UserError(faultsInWords(faults, source, file));
    for (const complaint of found) {
      if (!isNote(complaint)) warnings.push(located(complaint, source, file));
      remove(settings, isNote(complaint) ? complaint.path : complaint.path.slice(0, 2));
    }
  }
}

/** JSON.parse keeps the last of two equal keys: an empty `permissions` further down would drop all rules without a word. */
function parsedSettings(source: string, file: string): unknown {
  const parsed = parseJson(source);
  if (!parsed.ok) throw new UserError(`${file} is not JSON: ${parsed.why}.`);
  const tooDeep = whyNoJson(source);
  if (tooDeep !== undefined) throw new UserError(`${file}, ${tooDeep}.`);
  const repeated = repeatedKeys(source, MOST_REPEATED);
  if (repeated.length === 0) return parsed.value;
  const lines = repeated.map(({ path, place, first }) => {
    const key = withoutKeys(path.map(String).join('.'));
    return `${file}, line ${place.line}, column ${place.column}: the key "${key}" is already in line ${first.line}, column ${first.column}`;
  });
  throw new UserError([...lines, 'Only one of two equal keys can hold: put both into one, or remove one.'].join('\n'));
}

function checkNames(settings: Config | Settings, source: string, file: string): void {
  const names = nameFaults(settings).map((fault) =>
    located({ ...fault, text: labelled(fault), unknownKey: false }, source, file),
  );
  if (names.length > 0) throw new UserError(names.join('\n'));
}

/** An unknown key may be the slip of one that protects, so the file does not hold with it. */
function faultsInWords(faults: Complaint[], source: string, file: string): string {
  const lines = faults.map((complaint) => located(complaint, source, file));
  if (faults.some(({ unknownKey }) => unknownKey)) lines.push(HOW_TO_MEND);
  return lines.join('\n');
}

const HOW_TO_MEND =
  'Correct an unknown key, or remove it. A key for notes of your own begins with "x-" or "$", and is not looked at.';

/** How many repeated keys are told of. */
const MOST_REPEATED = 10;

const labelled = ({ path, text }: NameFault): string => withoutKeys(`${path.map(String).join('.')}: ${text}`);

/** A note a person keeps in the file, where its keys have fixed names. */
const isNote = ({ unknownKey, path }: Complaint): boolean => unknownKey && /^(?:x-|\$)/.test(String(path.at(-1)));

/** An MCP server that is described wrongly is named and left out, so that the rest holds without it. */
const isOfServer = ({ unknownKey, path }: Complaint): boolean =>
  !unknownKey && path[0] === 'mcpServers' && path.length > 1;

function located(complaint: Complaint, source: string, file: string): string {
  const { path } = complaint;
  // What came there may be a secret.
  const text = isOfServer(complaint)
    ? `${complaint.text.replace(/, came .*$/s, '')}; the server is left out`
    : complaint.text;
  // A key that is missing has no line of its own: its nearest parent that is there has one.
  for (let depth = path.length; depth > 0; depth--) {
    const place = placeOf(source, path.slice(0, depth));
    if (place) return `${file}, line ${place.line}, column ${place.column}: ${text}`;
  }
  return `${file}: ${text}`;
}

function remove(value: unknown, path: PropertyKey[]): void {
  const parent = at(value, path.slice(0, -1));
  const last = path.at(-1);
  if (typeof parent === 'object' && parent !== null && last !== undefined) Reflect.deleteProperty(parent, last);
}
