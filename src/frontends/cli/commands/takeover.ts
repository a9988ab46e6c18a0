import { clientOf, command, JSON_OPTION } from '../command.ts';
import { say, sayJson } from '../print.ts';

const GRACE_S = 10;

export const takeover = command({
  usage: 'takeover',
  describe: 'End a daemon that hangs: SIGTERM, then SIGKILL; no other is started',
  builder: (cli) =>
    cli
      .option('grace', {
        type: 'number',
        default: GRACE_S,
        describe: 'Seconds from SIGTERM to SIGKILL',
        coerce: (seconds: number) => {
          if (seconds >= 0 && seconds <= 3600) return seconds;
          throw new Error('--grace wants a number of seconds from 0 to 3600.');
        },
      })
      .option('json', JSON_OPTION),
  async run(args) {
    const client = await clientOf(args);
    const { owner, by, next } = await client.takeover({ graceMs: args.grace * 1000 });
    const { pid, host, epoch, at: since } = owner;
    if (args.json) {
      sayJson({ pid, since, host, epoch, ended_by: by, next: next ? { pid: next.pid, since: next.at } : null });
      return 'ok';
    }
    const how = by === 'SIGTERM' ? 'ended when it was asked to' : `did not end within ${args.grace} s and was killed`;
    say(`Process ${pid}, the owner since ${since}, ${how}.`);
    if (next) say(`The workspace has its next daemon already: process ${next.pid}, since ${next.at}.`);
    else say('The workspace is free. What it was at goes on with the next daemon: agentctl start');
    return 'ok';
  },
});
