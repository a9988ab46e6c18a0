import type { SessionStore, Toolbox, World } from './engine/ports.ts';
import type { Config, Settings } from './protocol/config.ts';
import { type Redactor, redactor } from './protocol/redact.ts';
import { redactedEvent } from './protocol/redact-event.ts';
import { secretsIn } from './protocol/secrets.ts';

/**
 * Keeps configured secrets out of what the daemon writes and tells: record, blobs, replies, `live`, its log, results of tools. What
 * any settings have named stays secret for all sessions until the daemon ends, also after a setting is taken back.
 */
export type Secrets = {
  /** Takes note of what these settings name. */
  learn(settings: Config | Settings): void;
  text: Redactor['text'];
  log(log: World['log']): World['log'];
  store(store: SessionStore): SessionStore;
  tools(tools: Toolbox): Toolbox;
};

export function openSecrets(env: NodeJS.ProcessEnv): Secrets {
  const known = new Map<string, string>();
  let redact = redactor([]);
  const learn = (settings: Config | Settings): void => {
    const fresh = secretsIn(env, settings).filter(({ value }) => !known.has(value));
    if (fresh.length === 0) return;
    for (const { name, value } of fresh) known.set(value, name);
    redact = redactor([...known].map(([value, name]) => ({ name, value })));
  };
  learn({});
  const text = (given: string) => redact.text(given);
  return {
    learn,
    text,
    log: (log) => (level, said) => log(level, text(said)),
    store: (store) => guardedStore(store, () => redact),
    tools: (tools) => guardedTools(tools, text),
  };
}

/** Every event passes here, so none can be forgotten. Long texts do so before they are cut: a cut must not leave half of a secret. */
function guardedStore(store: SessionStore, redact: () => Redactor): SessionStore {
  const { journal, blobs, inbox, live } = store;
  let streamed = redact().stream();
  return {
    ...store,
    journal: { ...journal, append: (bodies) => journal.append(bodies.map((body) => redactedEvent(body, redact()))) },
    blobs: { ...blobs, put: (given) => blobs.put(redact().text(given)) },
    inbox: {
      ...inbox,
      async look(wanted) {
        const seen = await inbox.look(wanted);
        return { ...seen, drops: seen.drops.map((drop) => guardedDrop(drop, redact().text)) };
      },
      refuse: (drop, why) => inbox.refuse(drop, redact().text(why)),
    },
    live: {
      begin() {
        streamed = redact().stream();
        live.begin();
      },
      write: (piece) => live.write(streamed(piece)),
    },
  };
}

type Drop = Awaited<ReturnType<SessionStore['inbox']['look']>>['drops'][number];

/** The file itself stays as it was dropped. */
function guardedDrop(drop: Drop, text: Redactor['text']): Drop {
  if (!drop.ok) return { ...drop, why: text(drop.why) };
  const said = drop.message.text;
  return said === undefined ? drop : { ...drop, message: { ...drop.message, text: text(said) } };
}

function guardedTools(tools: Toolbox, text: Redactor['text']): Toolbox {
  return {
    get specs() {
      return tools.specs;
    },
    ready: async (caller) => (await tools.ready(caller)).map(text),
    replay: tools.replay,
    permit: tools.permit,
    async run(call, context) {
      const result = await tools.run(call, context);
      return { ...result, text: text(result.text) };
    },
    async resume(call, context) {
      const result = await tools.resume(call, context);
      return result && { ...result, text: text(result.text) };
    },
    settle: tools.settle,
  };
}
