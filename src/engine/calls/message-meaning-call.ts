import { errorText } from '../../base/user-error.ts';
import { buildMeaningQuery, parseMeaning } from '../../core/prompt/meaning-query.ts';
import type { EventBody } from '../../protocol/session/event.ts';
import type { Rules } from '../../protocol/settings/effective-settings.ts';
import type { SessionPorts } from '../ports/session-ports.ts';
import type { SessionLog } from '../state/session-log.ts';

/** How long the model may take to say what a message means. */
const MOST_MS = 10_000;

/**
 * Asks the model what a queued message means, without tools. Whatever comes becomes one event: no answer in time, or
 * none that says it, is `unclear`. Throws only if `signal` ends it.
 */
export async function askMessageMeaning(
  message: string,
  ports: SessionPorts,
  { session, runGuarded }: SessionLog,
  rules: Rules,
  signal: AbortSignal,
): Promise<EventBody> {
  const control = new AbortController();
  const end = () => control.abort(signal.reason);
  signal.addEventListener('abort', end);
  const cancel = ports.clock.after(MOST_MS, () => control.abort(new Error(`no answer within ${MOST_MS / 1000} s`)));
  const began = ports.clock.elapsed();
  const took = () => ({ ms: Math.round(ports.clock.elapsed() - began) });
  try {
    const messages = runGuarded('building a request', () => buildMeaningQuery(session, message));
    const request = { messages, tools: [], model: session.run?.model ?? rules.model };
    const answer = await ports.model.ask(request, { signal: control.signal, onText: () => {} });
    const { usage, model } = answer;
    const meaning = parseMeaning(answer.text);
    return { type: 'message.interpreted', message, meaning, by: 'model', usage, model, ...took() };
  } catch (error) {
    if (signal.aborted) throw error;
    return {
      type: 'message.interpreted',
      message,
      meaning: 'unclear',
      by: 'model',
      error: errorText(error),
      ...took(),
    };
  } finally {
    cancel();
    signal.removeEventListener('abort', end);
  }
}
