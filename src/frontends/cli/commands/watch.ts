import type { Client, Sight } from '../../../client/index.ts';
import { visible } from '../../../protocol/visible.ts';
import { clientOf, command, type Global, SESSION } from '../command.ts';
import { EXIT_OF_STATUS, type Exit } from '../exit-codes.ts';
import { note, plain, say } from '../print.ts';
import { openScreen, type Screen } from '../screen.ts';
import { linesOf, statusOf } from '../sight.ts';

type Session = Extract<Sight, { is: 'state' }>['session'];

type Args = Global & { session: string; follow?: boolean | undefined; json?: boolean | undefined };

export const watch = command({
  usage: 'watch <session>',
  describe: 'Watch a run: steps, tools, and the text as it comes; ends when the run rests',
  builder: (cli) =>
    cli
      .positional('session', SESSION)
      .option('follow', { type: 'boolean', alias: 'f', describe: 'Do not end when the run rests' })
      .option('json', { type: 'boolean', describe: 'Print each event and each piece of text as a line of JSON' }),
  async run(args) {
    const client = await clientOf(args);
    const view = args.json ? jsonView() : screenView(openScreen(process.stdout));
    try {
      return await seen(client, view, args);
    } finally {
      view.end();
    }
  },
});

/** How a person or a program is told what is seen. */
type View = { begin(summary: string): void; tell(sight: Sight): void; end(): void };

function jsonView(): View {
  return {
    begin() {},
    tell(sight) {
      if (sight.is === 'event') say(visible(JSON.stringify({ is: 'event', event: sight.event })));
      else if (sight.is === 'text') say(visible(JSON.stringify(sight)));
    },
    end() {},
  };
}

function screenView(screen: Screen): View {
  let heard = '';
  return {
    begin: (summary) => screen.line(plain(summary)),
    tell(sight) {
      if (sight.is === 'text') {
        heard += sight.text;
        return screen.text(plain(sight.text));
      }
      if (sight.is === 'event') {
        for (const line of linesOf(sight, heard)) screen.line(line);
        if (sight.event.type.startsWith('model.')) heard = '';
      }
      screen.status(statusOf(sight.session));
    },
    end: screen.end,
  };
}

/** Ends as the run does; at once where nothing runs and nothing can. */
async function seen(client: Client, view: View, { session, follow }: Args): Promise<Exit> {
  const { summary, session: before, inbox } = await client.show(session);
  let last: Session = before;
  view.begin(summary);
  for await (const sight of client.watch(session)) {
    view.tell(sight);
    if (sight.is === 'text') continue;
    last = sight.session;
    if (follow) continue;
    if (sight.is === 'event' ? isOver(sight) : isStill(last, last.seq === before.seq ? inbox : 0)) break;
    if (sight.is === 'state' && !client.daemon()) {
      note('No daemon is running; nothing will move before: agentctl start');
      return 'daemon';
    }
  }
  return last.rest ? EXIT_OF_STATUS[last.rest.status] : 'ok';
}

/** Nothing runs and nothing waits to be run. */
function isStill({ run, queue }: Session, inbox: number): boolean {
  return run === null && queue.length === 0 && inbox === 0;
}

/** The run rests; or what came in was answered without one. */
function isOver({ event, session }: Extract<Sight, { is: 'event' }>): boolean {
  return event.type === 'run.rested' || (event.type === 'reply.published' && event.idle && session.run === null);
}
