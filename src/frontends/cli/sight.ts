import type { Sight } from '../../client/index.ts';
import { shownText } from '../../protocol/recorded.ts';
import { oneLine, paint, plain } from './print.ts';

type Session = Extract<Sight, { is: 'state' }>['session'];
type SeenEvent = Extract<Sight, { is: 'event' }>;

const LONGEST = 120;
const BAR = 20;

/** What somebody who watches is told of an event, in lines; of most nothing. `heard`: the text of the call that was streamed. */
export function linesOf({ event, session }: SeenEvent, heard: string): string[] {
  switch (event.type) {
    case 'message.received':
      return [
        paint('cyan', `» ${oneLine(`${event.command ? `/${event.command} ` : ''}${shownText(event.body)}`, LONGEST)}`),
      ];
    case 'run.resumed':
      return [paint('dim', 'goes on')];
    case 'model.answered':
      return restOfAnswer(event.text, heard);
    case 'model.failed':
      return [paint('yellow', oneLine(`model: ${event.error}${event.retry_at ? ' (tried again)' : ''}`, LONGEST))];
    case 'tool.started':
      return [paint('dim', oneLine(`$ ${event.name} ${argsInWords(event.args)}`, LONGEST))];
    case 'tool.finished':
      return [
        paint(
          event.ok ? 'dim' : 'red',
          `  ${oneLine(`${event.ok ? 'ok' : 'failed'}: ${shownText(event.output)}`, LONGEST)}`,
        ),
      ];
    case 'tool.interrupted':
      return [paint('yellow', `  ${oneLine(`interrupted: ${event.why}`, LONGEST)}`)];
    case 'approval.asked':
      return [paint('yellow', oneLine(`? ${event.name} ${event.shows}`, LONGEST))];
    case 'approval.answered':
      return [paint(event.decision === 'allow' ? 'green' : 'yellow', `  ${event.decision} (${event.by})`)];
    case 'plan.edited':
      return event.by === 'person'
        ? [paint('cyan', 'plan.json was edited'), ...event.ignored.map((one) => plain(one))]
        : [];
    case 'step.started':
      return [paint('bold', `▶ ${stepName(session, event.step)}`)];
    case 'step.completed':
      return [paint('green', `✓ ${stepName(session, event.step)}${event.by === 'timeout' ? ' (assumed done)' : ''}`)];
    case 'step.failed':
      return [paint('red', `✗ ${stepName(session, event.step)}: ${oneLine(event.error, LONGEST)}`)];
    case 'step.blocked':
      return [paint('yellow', `⚑ ${stepName(session, event.step)}: ${oneLine(event.error, LONGEST)}`)];
    case 'step.skipped':
      return [paint('dim', `– ${stepName(session, event.step)}`)];
    case 'step.reopened':
      return [`○ ${stepName(session, event.step)}`];
    case 'run.rested':
      return restLines(event.status, event.reason, event.status === 'done' ? '' : event.text);
    default:
      return [];
  }
}

/** Usually all of it was seen as it came; what was missed is said now. */
function restOfAnswer(text: string, heard: string): string[] {
  if (text === heard || text.trim() === '') return [];
  return [plain(text.startsWith(heard) ? text.slice(heard.length) : text)];
}

function restLines(status: string, reason: string, text: string): string[] {
  const colour = status === 'done' ? 'green' : status === 'failed' ? 'red' : 'yellow';
  return [paint(colour, `■ ${plain(status)}${reason ? ` (${plain(reason)})` : ''}`), ...(text ? [plain(text)] : [])];
}

function stepName({ plan }: Session, id: string): string {
  const place = plan?.steps.findIndex((step) => step.id === id) ?? -1;
  const step = plan?.steps[place];
  return step ? `${place + 1}/${plan?.steps.length} ${oneLine(step.description, LONGEST)}` : id;
}

/** The values alone: a path, a command. The record has them whole. */
function argsInWords(args: string): string {
  try {
    const value: unknown = JSON.parse(args);
    return typeof value === 'object' && value !== null ? Object.values(value).map(String).join(' ') : args;
  } catch {
    return args;
  }
}

/** The status line: bar, count, current step, iterations of the slice. */
export function statusOf({ plan, run }: Session): string {
  if (!run) return '';
  const spent = `iterations ${run.spent.iterations}/${run.limits.iterations}`;
  if (!plan || plan.steps.length === 0 || run.beside) return `working · ${spent}`;
  const done = plan.steps.filter((step) => step.status === 'completed' || step.status === 'skipped').length;
  const filled = Math.round((done / plan.steps.length) * BAR);
  const bar = '█'.repeat(filled) + '░'.repeat(BAR - filled);
  const current = plan.steps[plan.current_step_index];
  const progress = current?.progress ? ` (${current.progress.current}/${current.progress.total})` : '';
  return `${bar} ${done}/${plan.steps.length} · ${oneLine(current?.description ?? '', 60)}${progress} · ${spent}`;
}
