import { createRedactor, type Redactor, type Secret } from '../base/redactor.ts';
import type { SessionPorts } from '../engine/ports/session-ports.ts';
import type { SessionStore } from '../engine/ports/store-ports.ts';
import type { Toolbox } from '../engine/ports/tool-ports.ts';
import { EventBody } from '../protocol/session/event.ts';
import { channelSecret } from '../protocol/settings/channels.ts';
import type { Config, Settings } from '../protocol/settings/config.ts';
import { SECRET_NAME_PATTERN, VARIABLE_REFERENCE } from '../protocol/settings/env-variable.ts';
import type { McpServer } from '../protocol/settings/mcp-config.ts';
import type { ModelSettings } from '../protocol/settings/model-settings.ts';

/**
 * Keeps configured secrets out of everything the daemon writes: event log, blobs, replies, `live`, its own log and tool
 * results. A secret named by any settings stays secret for all sessions until the daemon ends, even after the setting
 * is removed.
 */
export type SecretRedaction = {
  /** Adds the secrets that these settings name. */
  learn(settings: Config | Settings): void;
  text: Redactor['text'];
  log(log: SessionPorts['log']): SessionPorts['log'];
  store(store: SessionStore): SessionStore;
  tools(tools: Toolbox): Toolbox;
};

export function openSecretRedaction(env: NodeJS.ProcessEnv): SecretRedaction {
  const known = new Map<string, string>();
  let redact = createRedactor([]);
  const learn = (settings: Config | Settings): void => {
    const fresh = findSecrets(env, settings).filter(({ value }) => !known.has(value));
    if (fresh.length === 0) return;
    for (const { name, value } of fresh) known.set(value, name);
    redact = createRedactor([...known].map(([value, name]) => ({ name, value })));
  };
  learn({});
  const text = (given: string) => redact.text(given);
  return {
    learn,
    text,
    log: (log) => (level, message, about) => log(level, text(message), about),
    store: (store) => redactStore(store, () => redact),
    tools: (tools) => redactTools(tools, text),
  };
}

/**
 * Every event passes through here, so none is missed. Long texts are redacted before they are cut: a cut must not leave
 * half a secret.
 */
function redactStore(store: SessionStore, redact: () => Redactor): SessionStore {
  const { eventLog, blobs, inbox, live } = store;
  let streamed = redact().stream();
  return {
    ...store,
    eventLog: { ...eventLog, append: (bodies) => eventLog.append(bodies.map((body) => redactEvent(body, redact()))) },
    blobs: { ...blobs, put: (given) => blobs.put(redact().text(given)) },
    inbox: {
      ...inbox,
      async listReady(wanted) {
        const seen = await inbox.listReady(wanted);
        return { ...seen, drops: seen.drops.map((drop) => redactDrop(drop, redact().text)) };
      },
      reject: (drop, why) => inbox.reject(drop, redact().text(why)),
    },
    live: {
      begin() {
        streamed = redact().stream();
        live.begin();
      },
      write: (piece) => live.write(streamed(piece)),
      end: live.end,
    },
  };
}

type Drop = Awaited<ReturnType<SessionStore['inbox']['listReady']>>['drops'][number];

/** The file itself stays as it was dropped. */
function redactDrop(drop: Drop, text: Redactor['text']): Drop {
  if (!drop.ok) return { ...drop, why: text(drop.why) };
  const content = drop.message.text;
  return content === undefined ? drop : { ...drop, message: { ...drop.message, text: text(content) } };
}

function redactTools(tools: Toolbox, text: Redactor['text']): Toolbox {
  return {
    get specs() {
      return tools.specs;
    },
    refresh: async (caller) => (await tools.refresh(caller)).map(text),
    replayPolicy: tools.replayPolicy,
    checkPermission: tools.checkPermission,
    async run(call, context) {
      const result = await tools.run(call, context);
      return { ...result, text: text(result.text) };
    },
    async resume(call, context) {
      const result = await tools.resume(call, context);
      return result && { ...result, text: text(result.text) };
    },
    endLeftovers: tools.endLeftovers,
  };
}

/** Names, and keywords of the formats: an event in which one of them was replaced could not be read. */
const UNREDACTED_KEYS: ReadonlySet<string> = new Set(
  `
    type key id in_reply_to session message name call plan step child delivered needs relation rollback parent
    unset agent model folder attachments file blob sha256 ino mtime_ns ctime_ns nonce status mode tier by
    completed_by kind outcome what replay after as when planner_query paused_plan next_step retry_at at
    started_at completed_at created_at updated_at
  `
    .trim()
    .split(/\s+/),
);
const REDACTION_MARK = /\[redacted: [^\]]*\]/g;

/** The event without secrets in any of its texts. An event that has none is returned unchanged. */
export function redactEvent(body: EventBody, { text }: Redactor): EventBody {
  const changed = mapTexts(body, text);
  if (changed === body) return body;
  const read = EventBody.safeParse(changed);
  // Some fields, such as addresses, allow only a plain word.
  return read.success
    ? read.data
    : EventBody.parse(mapTexts(changed, (one) => one.replace(REDACTION_MARK, 'redacted')));
}

/** The value with `change` applied to every text except names; the same object if nothing changed. */
function mapTexts(value: unknown, change: (text: string) => string): unknown {
  if (typeof value === 'string') return change(value);
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) {
    const all = value.map((one) => mapTexts(one, change));
    return all.some((one, place) => one !== value[place]) ? all : value;
  }
  const what = 'what' in value ? value.what : undefined;
  const entries = Object.entries(value);
  const all = entries.map(
    ([key, one]) => [key, isUnredactedKey(key, one, what) ? one : mapTexts(one, change)] as const,
  );
  return all.some(([, one], place) => one !== entries[place]?.[1]) ? Object.fromEntries(all) : value;
}

/** `from` and `to` are texts in a change of the goal; a `from` outside a change is a sender. */
function isUnredactedKey(key: string, value: unknown, what: unknown): boolean {
  if (key === 'to') return what !== 'goal';
  if (key === 'from') return what !== undefined && what !== 'goal';
  const isText = typeof value === 'string' || (Array.isArray(value) && value.every((one) => typeof one === 'string'));
  return isText && UNREDACTED_KEYS.has(key);
}

/** Environment variables that hold keys if no setting names one. */
const DEFAULT_KEY_VARIABLES = ['OPENAI_API_KEY', 'BRAVE_API_KEY', 'TAVILY_API_KEY'];

/**
 * The secrets that settings name: the variables of keys, those in `secrets`, and whatever looks like a secret in the
 * entries of MCP servers. Each has the name it has there.
 */
export function findSecrets(
  env: Readonly<Record<string, string | undefined>>,
  ...layers: Array<Config | Settings>
): Secret[] {
  const variables = layers.flatMap((layer) => [
    ...modelsOf(layer).map(({ api_key_env: name }) => name),
    'search' in layer ? layer.search?.api_key_env : undefined,
    ...(layer.secrets ?? []),
    ...('notify' in layer ? (layer.notify ?? []) : []).flatMap(({ url_env, secret_env, email }) => [
      ...[url_env, secret_env, email?.password_env],
    ]),
    ...('channels' in layer ? Object.values(layer.channels ?? {}) : []).map(channelSecret),
    ...Object.values(layer.mcpServers ?? {}).flatMap(secretVariables),
  ]);
  const named = [...DEFAULT_KEY_VARIABLES, ...variables].flatMap((name) => {
    const value = name === undefined ? undefined : env[name];
    return name !== undefined && value ? [{ name, value }] : [];
  });
  const given = layers.flatMap((layer) => [
    ...Object.entries(layer.mcpServers ?? {}).flatMap(([name, { env: own, headers, oauth }]) =>
      secretsGivenTo(name, { ...own, ...headers, client_secret: oauth?.clientSecret ?? null }, env),
    ),
    ...modelsOf(layer).flatMap(({ headers = {} }) => secretsGivenTo('model', headers, env)),
  ]);
  return [...named, ...given];
}

const modelsOf = (layer: Config | Settings): ModelSettings[] => [
  ...(layer.model ? [layer.model] : []),
  ...('models' in layer ? Object.values(layer.models ?? {}) : []),
];

/** Variables whose names look like secrets and that a server inherits from the environment. */
function secretVariables(server: McpServer): string[] {
  const found = [...JSON.stringify(server).matchAll(VARIABLE_REFERENCE)].flatMap(([, name]) => name ?? []);
  return found.filter((name) => SECRET_NAME_PATTERN.test(name));
}

/** In a header such as "Bearer …" the last word is the secret. */
function secretsGivenTo(
  name: string,
  texts: Readonly<Record<string, string | null>>,
  env: Parameters<typeof findSecrets>[0],
): Secret[] {
  return Object.entries(texts).flatMap(([key, text]) => {
    if (!SECRET_NAME_PATTERN.test(key) || text === null) return [];
    const value = text.replace(VARIABLE_REFERENCE, (_, variable: string, fallback = '') => env[variable] || fallback);
    const called = `${name}.${key}`.replace(/[^\w.-]/g, '_');
    return [value, value.split(/\s+/).at(-1) ?? ''].map((one) => ({ name: called, value: one }));
  });
}
