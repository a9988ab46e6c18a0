import { clientOf, command, JSON_OPTION } from '../command.ts';
import { duration, oneLine, say, sayJson } from '../print.ts';

export const status = command({
  usage: 'status',
  describe: 'Say whether a daemon is running, and how many sessions do what',
  builder: (cli) => cli.option('json', JSON_OPTION),
  async run(args) {
    const { lockInWords } = await import('../../../client/index.ts');
    const client = await clientOf(args);
    const owner = client.daemon();
    const counts: Record<string, number> = {};
    let waitingMessages = 0;
    const problems: Array<{ name: string; problem: string }> = [];
    for await (const { name, standing, inbox, problem } of client.list()) {
      if (problem !== null) problems.push({ name, problem });
      counts[standing] = (counts[standing] ?? 0) + 1;
      waitingMessages += inbox;
    }
    const { root: workspace, log } = client.paths;
    const total = client.sessions().length;
    const uptimeMs = owner ? Math.max(0, Date.now() - Date.parse(owner.at)) : null;
    const daemon = owner && {
      pid: owner.pid,
      since: owner.at,
      host: owner.host,
      epoch: owner.epoch,
      lock: owner.lock,
      uptime_s: Math.floor((uptimeMs ?? 0) / 1000),
    };
    if (args.json) {
      sayJson({
        workspace,
        log,
        daemon: daemon ?? null,
        sessions: { total, ...counts },
        inbox: waitingMessages,
        problems,
      });
    } else {
      say(
        owner
          ? `The daemon is running: process ${owner.pid}, for ${duration(uptimeMs ?? 0)}.`
          : 'No daemon is running.',
      );
      say(`Workspace: ${workspace}`);
      say(`Log:       ${log}`);
      if (owner) say(`Lock:      ${lockInWords(owner.lock)}`);
      say(`Sessions:  ${total}${inWords(counts)}`);
      for (const { name, problem } of problems) say(`Left alone: ${oneLine(`${name}: ${problem}`, 1000)}`);
      if (waitingMessages > 0) say(`Inbox:     ${waitingMessages} not taken yet`);
    }
    return owner ? 'ok' : 'daemon';
  },
});

function inWords(counts: Record<string, number>): string {
  const told = ['running', 'waiting', 'paused', 'failed', 'unreadable'].filter((standing) => counts[standing]);
  return told.length === 0 ? '' : ` (${told.map((standing) => `${counts[standing]} ${standing}`).join(', ')})`;
}
