import { UserError } from '../../../protocol/errors.ts';
import { clientOf, command, type JobLine, JSON_OPTION, SESSION } from '../command.ts';
import { note, oneLine, paint, say, sayJson, table } from '../print.ts';

export const jobs = command({
  usage: 'jobs <session> [action] [job]',
  describe: 'List the commands a session runs in the background, or stop one',
  builder: (cli) =>
    cli
      .positional('session', SESSION)
      .positional('action', { choices: ['stop'] as const, describe: 'Ends a job with all its processes' })
      .positional('job', { type: 'string', describe: 'Which one, as in job_1' })
      .option('json', JSON_OPTION)
      .example('$0 jobs demo stop job_1', ''),
  async run(args, parts) {
    const client = await clientOf(args);
    if (args.action === 'stop' && args.job === undefined)
      throw new UserError(`Which job? agentctl jobs ${args.session} lists them; end one with: stop job_1`);
    const found = await parts.jobs(client.folder(args.session), args.action && args.job);
    if (args.json) sayJson(found);
    else if (found.length === 0) note('No jobs.');
    else say(rows(found));
    return 'ok';
  },
});

function rows(found: JobLine[]): string {
  const [head = '', ...lines] = table([
    ['JOB', 'STATE', 'SECONDS', 'COMMAND'],
    ...found.map(({ id, how, for_s, command: said }) => [id, how, String(for_s ?? '-'), oneLine(said, 100)]),
  ]).split('\n');
  return [paint('bold', head), ...lines.map((line) => line.trimEnd())].join('\n');
}
