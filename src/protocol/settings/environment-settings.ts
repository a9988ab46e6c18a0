import type { z } from 'zod';
import { parseJson } from '../../base/json.ts';
import { nearestName } from '../../base/strings.ts';
import { UserError } from '../../base/user-error.ts';
import { Config, Settings } from './config.ts';
import { isEnvVariableName } from './env-variable.ts';
import { ModelSettings } from './model-settings.ts';
import { Limits, LimitsInput } from './run-options.ts';

type Environment = Readonly<Record<string, string | undefined>>;

/** What the environment may set. */
export type EnvironmentSettings = Pick<Settings, 'model' | 'limits' | 'language'>;

/** Budgets count with the prices, so only files set them. */
const FILE_ONLY = new Set(['model.prices']);

const GIVEN = Settings.pick({ model: true, limits: true, language: true });

/** `AGENTD_MODEL_NAME` for `model.name`, and so on. */
const variableOf = (...path: string[]): string => `AGENTD_${path.join('_').toUpperCase()}`;

const KEYS: Array<[path: string[], schema: z.ZodType]> = [
  [['language'], Settings.shape.language],
  ...Object.entries(ModelSettings.shape).map(([key, schema]): [string[], z.ZodType] => [['model', key], schema]),
  ...Object.entries(LimitsInput.shape).map(([key, schema]): [string[], z.ZodType] => [['limits', key], schema]),
];
const READ = new Map(
  KEYS.filter(([path]) => !FILE_ONLY.has(path.join('.'))).map(([path, schema]) => [
    variableOf(...path),
    { path, schema },
  ]),
);

/** Keys of settings that only files set: a variable that names one would otherwise be ignored without a word. */
const REFUSED = new Map(
  [
    ...Object.keys(Config.shape).filter((key) => !['$schema', 'version', 'model', 'limits', 'language'].includes(key)),
    ...FILE_ONLY,
  ].map((key) => [variableOf(...key.split('.')), key]),
);

/**
 * The settings in `AGENTD_MODEL_*`, `AGENTD_LIMITS_*` and `AGENTD_LANGUAGE`; values that are no text are JSON. Throws
 * UserError naming a variable that is empty, invalid or unknown, or that names a setting of files. Repeats no value.
 */
export function settingsFromEnvironment(env: Environment): EnvironmentSettings {
  const found = new Map<string, unknown>();
  for (const [name, text] of Object.entries(env)) {
    if (!name.startsWith('AGENTD_') || text === undefined) continue;
    const refused = REFUSED.get(name);
    if (refused !== undefined)
      throw new UserError(`${name} is not read: \`${refused}\` is set in agentd.json or session.json. Unset it.`);
    const known = READ.get(name);
    if (known) place(found, known.path, readValue(name, text, known.schema));
    else if (/^AGENTD_(?:MODEL|LIMITS)(?:_|$)/.test(name)) throw unknownVariable(name);
  }
  const read = GIVEN.safeParse(Object.fromEntries(found));
  if (read.success) return read.data;
  const [issue] = read.error.issues;
  throw invalidValue(variableOf(...(issue?.path.slice(0, 2).map(String) ?? [])), issue?.message);
}

/** The model of the environment, with the variables that other programs use too. */
export function modelFromEnvironment(env: Environment): ModelSettings {
  const { OPENAI_BASE_URL: url, OPENAI_MODEL: name } = env;
  return { ...(url && { base_url: url }), ...(name && { name }), ...settingsFromEnvironment(env).model };
}

function place(found: Map<string, unknown>, [section = '', key]: string[], value: unknown): void {
  found.set(section, key === undefined ? value : { ...Object(found.get(section)), [key]: value });
}

function unknownVariable(name: string): UserError {
  const shown = isEnvVariableName(name) ? name : JSON.stringify(name);
  const near = nearestName(name, [...READ.keys()]) ?? 'AGENTD_MODEL_NAME, AGENTD_LIMITS_ITERATIONS';
  return new UserError(`${shown} is no setting. Expected a name such as ${near} (docs/settings.md).`);
}

function readValue(name: string, text: string, schema: z.ZodType): unknown {
  if (text === '') throw new UserError(`${name} is empty. Expected a value; to use the default, leave it out.`);
  const asText = schema.safeParse(text);
  if (asText.success) return text;
  const asJson = parseJson(text);
  const read = asJson === undefined ? asText : schema.safeParse(asJson);
  if (read.success) return asJson;
  throw invalidValue(name, read.error.issues[0]?.message);
}

const invalidValue = (name: string, message = 'it is not valid'): UserError =>
  new UserError(`${name}: ${message.replace(/\.$/, '')}. Correct it, or unset it (docs/settings.md).`);

/** Limits of files with those of the environment, which may lower what a file sets, and replaces only defaults. */
export function limitsWithEnvironment(files: Limits, environment: Limits = {}): Limits {
  const keys = Object.keys(Limits.shape).filter((key): key is keyof Limits => key in environment);
  const lowered = keys.map((key) => [key, stricter(key, files[key], environment[key])]);
  return { ...files, ...Object.fromEntries(lowered) };
}

/** `null` is no limit, and so is 0 for `repeats`. */
function stricter(key: keyof Limits, file: number | null | undefined, other: number | null | undefined) {
  const height = (value: number | null | undefined) =>
    value === null || value === undefined || (key === 'repeats' && value === 0) ? Number.POSITIVE_INFINITY : value;
  return file === undefined || height(other) < height(file) ? other : file;
}
