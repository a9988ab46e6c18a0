import { modelFlags, settingOptions, workspaceRoot } from '../../options.ts';
import { command, type Finding, JSON_OPTION } from '../command.ts';
import { paint, plain, say, sayJson } from '../print.ts';

const MARKS: Record<Finding['is'], string> = { ok: '✓', note: '·', warning: '!', wrong: '✗' };
const COLOURS = { ok: 'green', note: 'dim', warning: 'yellow', wrong: 'red' } as const;

export const doctor = command({
  usage: 'doctor',
  describe: 'Check this machine, the workspace and its configuration',
  builder: (cli) =>
    settingOptions(cli).option('ask', { type: 'boolean', describe: 'Call the model once' }).option('json', JSON_OPTION),
  async run(args, parts) {
    const findings = await parts.doctor({
      root: workspaceRoot(args.workspace),
      configFile: args.config,
      flags: modelFlags(args),
      env: process.env,
      ask: args.ask === true,
    });
    if (args.json) sayJson(findings);
    else for (const finding of findings) say(line(finding));
    return findings.some((finding) => finding.is === 'wrong') ? 'error' : 'ok';
  },
});

function line({ is, what, text }: Finding): string {
  const [first = '', ...more] = plain(text).split('\n');
  const indent = `\n${' '.repeat(17)}`;
  return `${paint(COLOURS[is], MARKS[is])} ${what.padEnd(14)} ${[first, ...more].join(indent)}`;
}
