/** The models room: an OpenAI-compatible endpoint, or a built-in model, behind the engine's `Model` port. */

import { getOwn } from '../base/collections.ts';
import { errorText } from '../base/user-error.ts';
import { type Model, ModelError, type ModelRequest } from '../engine/ports/session-ports.ts';
import { type EffectiveModel, OPENAI_KEY, OPENAI_URL } from '../protocol/settings/effective-settings.ts';
import { openBuiltInModel, readScript, scriptedAnswers } from './built-in/built-in-model.ts';
import { answerRunbook } from './built-in/runbook-model.ts';
import type { EndpointSettings } from './endpoint/endpoint-client.ts';
import { withFallback } from './endpoint/fallback.ts';
import { openEndpointModel } from './endpoint/openai-endpoint.ts';
import { type EndpointProfiles, unsavedProfiles } from './request/endpoint-profiles.ts';

export type Environment = Record<string, string | undefined>;

/** Like the timeout of Node's `fetch` between two pieces of a body. */
const DEFAULT_TIMEOUT_S = 300;
const SCRIPTED_PREFIX = 'scripted:';
/** The longest delay of a Node timer. */
const MAX_TIMER_MS = 2 ** 31 - 1;

/**
 * The model that settings and environment name. A request's own `model` may name another: `runbook` and
 * `scripted:<file>` are built in, a name in `models` is that entry, any other goes to the endpoint (`base_url`, else
 * OPENAI_BASE_URL, else OpenAI if there is a key). Without an endpoint or a name, each `ask` throws an `unconfigured`
 * fault that says what to do. Throws `UserError` for a script that cannot be read.
 */
export function chooseModel(settings: EffectiveModel, env: Environment, profiles = unsavedProfiles()): Model {
  const configured = settings.name || env['OPENAI_MODEL'] || undefined;
  const { named = {} } = settings;
  const known = new Map<string, Model>();
  const entries = new Map<string, Model>();
  const entryModel = (name: string): Model | undefined => {
    const entry = getOwn(named, name);
    const model = entries.get(name) ?? (entry && entryOf(entry));
    if (model) entries.set(name, model);
    return model;
  };
  const entryOf = (entry: EffectiveModel) =>
    underOneName(createEndpointModel(entry, env, { name: entry.name, profiles }));
  const build = (name: string): Model | undefined => {
    if (isBuiltIn(name)) return createBuiltInModel(name);
    const own = entryModel(name);
    return own && withFallback(own, getOwn(named, name)?.fallback, name, entryModel);
  };
  const common = createEndpointModel(settings, env, { name: configured, profiles });
  const endpoint = withFallback(common, settings.fallback, configured ?? '', entryModel);
  function modelFor(name: string | undefined): Model {
    const model = name === undefined ? endpoint : (known.get(name) ?? build(name) ?? endpoint);
    if (name !== undefined && model !== endpoint) known.set(name, model);
    return model;
  }
  modelFor(configured);
  return {
    ask: async (request, options) => findOrFault(() => modelFor(request.model ?? configured)).ask(request, options),
    prepare: async (request) => findOrFault(() => modelFor(request.model ?? configured)).prepare?.(request),
    contextWindow: (name) => modelFor(name ?? configured).contextWindow?.(name),
    prices: async (name) => modelFor(name ?? configured).prices?.(name),
  };
}

/** An entry of `models` has its own model, whatever name a request has for it. */
function underOneName(model: Model): Model {
  const copies = new WeakMap<ModelRequest, ModelRequest>();
  const own = (request: ModelRequest): ModelRequest => {
    const copy = copies.get(request) ?? { ...request, model: undefined };
    copies.set(request, copy);
    return copy;
  };
  return {
    ask: (request, options) => model.ask(own(request), options),
    prepare: async (request) => model.prepare?.(own(request)),
    contextWindow: () => model.contextWindow?.(undefined),
    prices: async () => model.prices?.(undefined),
  };
}

/** Whether a model needs no endpoint. */
export const isBuiltIn = (name: string | undefined): name is string =>
  name === 'runbook' || name?.startsWith(SCRIPTED_PREFIX) === true;

/** A script named while the daemon runs may be missing: that fails the run, not the daemon. */
function findOrFault(find: () => Model): Model {
  try {
    return find();
  } catch (error) {
    throw new ModelError('rejected', errorText(error), { retry: false });
  }
}

function createBuiltInModel(name: string): Model {
  return name.startsWith(SCRIPTED_PREFIX)
    ? openBuiltInModel(name, scriptedAnswers(readScript(name.slice(SCRIPTED_PREFIX.length))))
    : openBuiltInModel(name, answerRunbook, { free: true });
}

function createEndpointModel(
  settings: EffectiveModel,
  env: Environment,
  { name, profiles }: { name: string | undefined; profiles: EndpointProfiles },
): Model {
  const apiKey = (!settings.no_key && env[settings.api_key_env ?? OPENAI_KEY]) || undefined;
  // The setting may contain the key itself by mistake.
  const keyName = settings.api_key_env ? 'the variable named in model.api_key_env' : OPENAI_KEY;
  const baseUrl = settings.base_url || env['OPENAI_BASE_URL'] || (apiKey && OPENAI_URL);
  if (!baseUrl) return unconfiguredModel(NO_ENDPOINT);
  if (!/^https?:/i.test(baseUrl) || !URL.canParse(baseUrl))
    return unconfiguredModel(
      `Expected the address of an endpoint, such as http://127.0.0.1:11434/v1, got ${JSON.stringify(baseUrl)}. Correct it where it was set: --base-url, OPENAI_BASE_URL or model.base_url.`,
    );
  if (settings.no_key === 'unlisted') return unconfiguredModel(WHY_NO_KEY.unlisted);
  if (settings.api_key_env && !apiKey)
    return unconfiguredModel(
      'The environment variable named in model.api_key_env is not set. Set it before the daemon starts, or name another variable.',
    );
  const headers = fillHeaders(settings, env);
  if (typeof headers === 'string') return unconfiguredModel(headers);
  const timeoutMs = Math.min(MAX_TIMER_MS, Math.ceil((settings.timeout_s ?? DEFAULT_TIMEOUT_S) * 1000));
  const { prices, images, api, max_tokens: maxTokens, api_version: apiVersion, tool_calls: toolCalls } = settings;
  const asSet = { prices, images, api, toolCalls, keyName };
  const body = { ...(maxTokens !== undefined && { max_tokens: maxTokens }), ...settings.body };
  const whyNoKey = settings.no_key && WHY_NO_KEY[settings.no_key];
  const endpoint: EndpointSettings = {
    ...asSet,
    ...{ baseUrl: withVersion(baseUrl, apiVersion), name: name ?? '', apiKey, whyNoKey, timeoutMs, body, headers },
  };
  const model = openEndpointModel(endpoint, profiles);
  const nameless = unconfiguredModel(`${baseUrl} is set, but no model is named. ${HOW_TO_NAME}`);
  return {
    ask: async (request, options) => ((request.model ?? name) ? model : nameless).ask(request, options),
    prepare: async (request) => ((request.model ?? name) ? model : nameless).prepare?.(request),
    contextWindow: (asked) => settings.context_window ?? model.contextWindow?.(asked ?? name),
    prices: async (asked) => ((asked ?? name) ? model.prices?.(asked ?? name) : undefined),
  };
}

function withVersion(baseUrl: string, version: string | undefined): string {
  if (version === undefined) return baseUrl;
  const url = new URL(baseUrl);
  url.searchParams.set('api-version', version);
  return url.href;
}

const HEADER_VARIABLE = /\$(?:\{(?:env:)?([A-Za-z_]\w*)\}|([A-Z_][A-Z0-9_]*))/g;

/** The headers with the values of the variables that they name, or why they cannot be sent. */
function fillHeaders(
  { headers = {}, secrets = [], api_key_env: keyVariable }: EffectiveModel,
  env: Environment,
): Record<string, string | null> | string {
  const filled: [string, string | null][] = [];
  for (const [name, text] of Object.entries(headers)) {
    for (const [, braced, plain] of text?.matchAll(HEADER_VARIABLE) ?? []) {
      const variable = braced ?? plain ?? '';
      if (variable !== keyVariable && !secrets.includes(variable))
        return `The header ${name} of model.headers names a variable that "secrets" in agentd.json does not list, so its value is not sent. List it there.`;
      if (!env[variable])
        return `The header ${name} of model.headers names a variable that is not set. Set it before the daemon starts.`;
    }
    const value =
      text?.replace(HEADER_VARIABLE, (_, one?: string, other?: string) => env[one ?? other ?? ''] ?? '') ?? null;
    if (/[\r\n\0]/.test(value ?? ''))
      return `The variable in the header ${name} of model.headers has a line break in it. Expected one line.`;
    filled.push([name, value]);
  }
  return Object.fromEntries(filled);
}

function unconfiguredModel(text: string): Model {
  return {
    ask: async () => {
      throw new ModelError('unconfigured', text, { retry: false });
    },
  };
}

/** Why an endpoint gets no key, and what to do. The variable is not named: the setting may contain the key itself. */
export const WHY_NO_KEY: Record<NonNullable<EffectiveModel['no_key']>, string> = {
  unnamed:
    'No key was sent: only session.json names this address, and keys set elsewhere go to the address they were set for. ' +
    'Name the variable of its key as model.api_key_env in session.json, and list it in "secrets" of agentd.json. See docs/models.md',
  unlisted:
    'The variable named in model.api_key_env of session.json is not in "secrets" of agentd.json, so its value is not sent to ' +
    'an address that only session.json names. List it there, or move the address to agentd.json. See docs/models.md',
};

const HOW_TO_NAME = 'Name one: agentctl restart --model NAME, or agentctl config set model.name NAME.';

const NO_ENDPOINT = [
  'No model is configured. Name one: agentctl restart --base-url http://127.0.0.1:11434/v1 --model NAME',
  'or in agentd.json: agentctl config set model.name NAME, and OPENAI_API_KEY (or OPENAI_BASE_URL) where the daemon starts;',
  'or without any AI: agentctl restart --model runbook, which runs a list of commands. More: agentctl help models',
].join('\n');
