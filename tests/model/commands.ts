import * as fs from 'node:fs';
import { setImmediate as letOthers, setTimeout as sleep } from 'node:timers/promises';
import fc from '../support/property.ts';
import { type Dropped, folderOf } from './actions.ts';
import { askAbout, workOn } from './job-script.ts';
import {
  consume,
  dropSafely,
  dropSloppily,
  editPlan,
  forkAndCompare,
  removeSession,
  sendAgain,
  spoilPlan,
  textOf,
  type Way,
} from './person.ts';
import type { Real } from './real.ts';

/** What the next command may count on; what people did is kept in the workspace's histories. */
export type Model = { running: boolean; frozen: boolean; full: boolean };
type Command = fc.AsyncCommand<Model, Real>;

const SESSIONS = ['a', 'b'];
const FIRST_MS = 50;
/** How long a command waits for the moment it is about. */
const SIGHT_MS = 700;
const HOUR_MS = 3_600_000;

function command(
  name: string,
  can: (model: Readonly<Model>) => boolean,
  run: (model: Model, real: Real) => unknown,
): Command {
  return {
    check: can,
    async run(model, real) {
      real.log.push(`-- ${name}`);
      await run(model, real);
    },
    toString: () => name,
  };
}

const always = () => true;
const namesIn = (folder: string) => (fs.existsSync(folder) ? fs.readdirSync(folder).join('/') : '');
/** On a full disk a person notices that nothing can be saved, and waits. */
const hasRoom = ({ full }: Model) => !full;
const runs = ({ running, frozen }: Model) => running && !frozen;

const session = fc.constantFrom(...SESSIONS);
const way = fc.constantFrom<Way>('rename', 'in place');
/** Most messages bring work, so that there is a plan to edit and a command to be killed in. */
const words = fc.constantFrom(
  ...['work', 'work', 'work', 'work', 'as JSON', 'as JSON', 'ask', 'stop', 'continue', '/status', 'broken'],
  ...['/restore 0', '/restore 1', '/restore 2', '/undo --files'],
);

/** A message nobody has sent before. */
function message(kind: string, n: number): Dropped {
  const [md, json] = [`${n}.md`, `${n}.json`];
  if (kind === 'work') return { name: md, content: workOn(`${n}`), isMessage: true };
  if (kind === 'ask') return { name: md, content: askAbout(`${n}`), isMessage: true };
  if (kind === 'broken') return { name: json, content: '{"text": ', isMessage: false };
  if (kind === 'as JSON')
    return { name: json, content: JSON.stringify({ id: `id-${n}`, text: workOn(`${n}`) }), isMessage: true };
  return { name: md, content: kind, isMessage: true };
}

const safeName = ({ name, ...rest }: Dropped): Dropped => ({ ...rest, name: name.replace('.', '.msg.') });

const drop = fc
  .tuple(session, words)
  .map(([to, kind]) =>
    command(`drop ${kind} into ${to}`, hasRoom, (_, real) =>
      dropSafely(real, to, safeName(message(kind, real.fresh()))),
    ),
  );

const sloppy = fc
  .tuple(session, words, fc.integer({ min: 1, max: 4 }), fc.constantFrom(0, 3, 20))
  .map(([to, kind, pieces, ms]) =>
    command(`write ${kind} into ${to} in ${pieces} pieces, ${ms} ms apart`, hasRoom, (_, real) =>
      dropSloppily(real, to, message(kind, real.fresh()), pieces, ms),
    ),
  );

const again = fc
  .tuple(session, fc.nat(9))
  .map(([to, which]) => command(`send id ${which} into ${to} again`, hasRoom, (_, real) => sendAgain(real, to, which)));

const edit = fc.tuple(session, way, fc.nat(9)).map(([of, how, what]) =>
  command(`edit ${what} of the plan of ${of} (${how})`, hasRoom, (_, real) => {
    if (!editPlan(real, of, `token-${real.fresh()}.`, how, what)) real.log.push('-- (no plan to edit)');
  }),
);

const spoil = fc
  .tuple(session, way)
  .map(([of, how]) => command(`save half a plan in ${of} (${how})`, hasRoom, (_, real) => spoilPlan(real, of, how)));

const consumed = fc
  .tuple(session, fc.constantFrom('read', 'read', 'deleted'))
  .map(([of, how]) => command(`replies of ${of}: ${how}`, always, (_, real) => consume(real, of, how)));

const remove = session.map((of) => command(`rm -rf ${of}`, always, (_, real) => removeSession(real, of)));

const remake = session.map((of) =>
  command(`rm -rf ${of} and begin it again`, hasRoom, async (_, real) => {
    await removeSession(real, of);
    await dropSafely(real, of, safeName(message('work', real.fresh())));
  }),
);

const fork = fc
  .tuple(session, fc.nat(3))
  .map(([of, checkpoint]) =>
    command(`fork ${of} at checkpoint ${checkpoint}`, hasRoom, (_, real) => forkAndCompare(real, of, checkpoint)),
  );

const wait = fc.constantFrom(5, 30, 100, 300).map((ms) => command(`${ms} ms go by`, always, () => sleep(ms)));

const kill = fc.constant(
  command(
    'kill -9',
    ({ running }) => running,
    async (model, real) => {
      await real.kill();
      [model.running, model.frozen] = [false, false];
    },
  ),
);

/** What is written just before the event log says so: between the two, a kill hurts most. */
const MOMENTS = {
  'a reply': (real: Real, of: string) => namesIn(folderOf(real, of).outbox),
  'a line of a command': (real: Real) => textOf(real.executions),
  'a plan': (real: Real, of: string) => textOf(folderOf(real, of).plan),
  'a message that is taken': (real: Real, of: string) => namesIn(folderOf(real, of).done),
};

const killAt = fc
  .tuple(session, fc.constantFrom(...(Object.keys(MOMENTS) as Array<keyof typeof MOMENTS>)))
  .map(([of, what]) =>
    command(`kill -9 at the next sight of ${what} in ${of}`, runs, async (model, real) => {
      const look = () => MOMENTS[what](real, of);
      const before = look();
      for (const end = performance.now() + SIGHT_MS; look() === before && performance.now() < end; ) await letOthers();
      await real.kill();
      model.running = false;
      consume(real, of, 'read');
    }),
  );

const start = fc.constant(
  command(
    'start',
    ({ running }) => !running,
    async (model, real) => {
      model.running = await real.start();
    },
  ),
);

const second = fc.constant(
  command(
    'a second daemon',
    ({ running }) => running,
    (_, real) => real.second(),
  ),
);

const freeze = fc.constant(
  command('SIGSTOP', runs, (model, real) => {
    real.freeze();
    model.frozen = true;
  }),
);

const thaw = fc.constant(
  command(
    'SIGCONT',
    ({ frozen }) => frozen,
    (model, real) => {
      real.thaw();
      model.frozen = false;
    },
  ),
);

const clock = fc
  .constantFrom(1, -1)
  .map((hours) => command(`the clock jumps ${hours} h`, always, (_, real) => real.shiftClock(hours * HOUR_MS)));

const fill = fc.constant(
  command('the disk fills up', hasRoom, (model, real) => {
    real.fill();
    model.full = true;
  }),
);

const free = fc.constant(
  command(
    'there is room again',
    ({ full }) => full,
    (model, real) => {
      real.free();
      model.full = false;
    },
  ),
);

/** How each story begins: a session has work, and its daemon has begun it. */
export async function atWork(real: Real): Promise<Model> {
  await dropSafely(real, 'a', safeName(message('work', real.fresh())));
  const running = await real.start();
  await sleep(FIRST_MS);
  return { running, frozen: false, full: false };
}

/** Everything that may happen; what is common is there more than once. */
export const commands = (hasDisk: boolean): Array<fc.Arbitrary<Command>> => [
  drop,
  drop,
  drop,
  sloppy,
  sloppy,
  again,
  edit,
  edit,
  edit,
  spoil,
  consumed,
  remove,
  remake,
  fork,
  wait,
  wait,
  wait,
  kill,
  killAt,
  killAt,
  killAt,
  start,
  start,
  start,
  second,
  freeze,
  thaw,
  clock,
  ...(hasDisk ? [fill, free] : []),
];
