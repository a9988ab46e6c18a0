import type { Event } from '../../protocol/event.ts';
import { shownText } from '../../protocol/recorded.ts';
import { localTime, oneLine, paint } from './print.ts';

const LONGEST = 160;
/** Cells before the gist. */
const HEAD = 47;

/** An event in one line: number, time, type, and the gist. */
export function eventLine(event: Event): string {
  const head = `${String(event.seq).padStart(5)}  ${localTime(event.at)}  `;
  const line = `${paint('dim', head)}${event.type.padEnd(17)}  ${oneLine(gist(event), room())}`;
  return line.trimEnd();
}

function gist(event: Event): string {
  switch (event.type) {
    case 'session.opened':
      return event.key;
    case 'message.received':
      return `${event.name}: ${event.command ? `/${event.command} ` : ''}${shownText(event.body)}`;
    case 'run.started':
      return `for ${event.message}${event.beside ? `, beside ${event.beside}` : ''}`;
    case 'mode.chosen':
      return `${event.mode}: ${event.mode_reason}`;
    case 'mode.set':
      return `${event.mode ?? 'as in the settings'}, for ${event.message}`;
    case 'run.resumed':
      return `by ${event.by}, for ${event.message}`;
    case 'model.answered':
      return `${event.usage.tokens} tokens, ${event.ms} ms${callsOf(event)}: ${event.text}`;
    case 'model.failed':
      return `${event.kind}, attempt ${event.attempt}${event.retry_at ? `, next try at ${localTime(event.retry_at)}` : ''}: ${event.error}`;
    case 'tool.started':
      return `${event.call} ${event.name} ${event.args}`;
    case 'tool.finished':
      return `${event.call} ${event.ok ? 'ok' : 'failed'}, ${event.ms} ms: ${shownText(event.output)}`;
    case 'tool.interrupted':
      return `${event.call} ${event.outcome === 'unknown' ? 'may or may not have run' : 'did not run'}: ${event.why}`;
    case 'approval.asked':
      return `${event.id}, ${event.name}, ${event.why}: ${event.shows}`;
    case 'approval.answered':
      return `${event.id ?? event.call} ${event.decision} by ${event.by}${event.why && `: ${event.why}`}`;
    case 'plan.started':
      return `${event.id} (${event.mode}): ${event.goal}`;
    case 'plan.edited':
      return `by ${event.by}: ${[...event.changes.map((change) => change.what), ...event.ignored].join('; ')}`;
    case 'plan.ended':
      return `${event.plan} ${event.status}: ${event.reason}`;
    case 'step.added':
      return `${event.step.id}: ${event.step.description}`;
    case 'step.started':
      return event.step;
    case 'step.progressed':
      return `${event.step} ${event.progress.current}/${event.progress.total}`;
    case 'step.claimed':
      return `${event.step} by ${event.tier}, refused (${event.veto}): ${event.evidence}`;
    case 'step.asked':
      return `${event.step} after ${event.iterations} iterations`;
    case 'step.completed':
      return `${event.step} by ${event.by}: ${event.result || event.evidence}`;
    case 'step.failed':
    case 'step.blocked':
      return `${event.step} by ${event.by}: ${event.error}`;
    case 'step.skipped':
      return `${event.step} by ${event.by}: ${event.reason}`;
    case 'step.reopened':
      return `${event.step} by ${event.by}`;
    case 'plan.revised':
      return `${event.reason}: ${event.changes.map((change) => change.what).join(', ')}`;
    case 'child.sent':
      return `${event.step} to ${event.child}, attempt ${event.attempt}${event.command ? `, /${event.command}` : ''}`;
    case 'child.replied':
      return `${event.step} from ${event.child}, ${event.reply.status}: ${event.reply.text}`;
    case 'context.compacted':
      return event.summary === '' ? 'a fresh conversation' : `up to ${event.upto}: ${event.summary}`;
    case 'run.rested':
      return `${event.status} (${event.reason}): ${event.text}`;
    case 'reply.committed':
      return `${event.reply.id} ${event.reply.status}: ${event.reply.text}`;
    case 'reply.published':
      return `to ${event.message}`;
    case 'recovery.started':
      return [...event.open, ...(event.error === undefined ? [] : [event.error])].join('; ');
    case 'daemon.stopped':
      return event.open.join('; ');
    default:
      return event satisfies never;
  }
}

function room(): number {
  return process.stdout.isTTY ? Math.max(30, process.stdout.columns - HEAD) : LONGEST;
}

function callsOf({ calls }: { calls: Array<{ name: string }> }): string {
  return calls.length === 0 ? '' : ` → ${calls.map((call) => call.name).join(', ')}`;
}
