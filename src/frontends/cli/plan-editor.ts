import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline/promises';
import type { Client, PlanEdit } from '../../client/index.ts';
import { UserError } from '../../protocol/errors.ts';
import { note, say } from './print.ts';

/**
 * Lets a person edit `plan.json` in the editor of their choice and saves it back. What cannot be read is never saved: on a
 * terminal they may edit it again, else it is said where their text is.
 */
export async function editPlan(client: Client, session: string): Promise<void> {
  const { openPlanEdit } = await import('../../client/plan-edit.ts');
  const edit = await openPlanEdit(client.folder(session), new Date());
  let keep = true;
  try {
    await edited(edit);
    const isSaved = await edit.save();
    keep = false;
    const taken = client.daemon() ? 'before it does anything else here' : 'when one runs (agentctl start)';
    say(isSaved ? `Saved. The daemon takes it in ${taken}.` : 'Nothing was changed.');
  } finally {
    edit.close({ keep });
  }
}

async function edited(edit: PlanEdit): Promise<void> {
  const left = `plan.json is as it was. Your text: ${edit.path}`;
  for (;;) {
    const end = await runEditor(edit.path);
    if (end !== 0) throw new UserError(`The editor ended with ${end}; ${left}`);
    const problem = edit.problem();
    if (problem === null) return;
    if (!process.stdin.isTTY || !(await again(problem))) throw new UserError(`Not saved: ${problem}\n${left}`);
  }
}

/** Through a shell, as others do: `EDITOR` may be a command with flags, such as `code --wait`. */
function runEditor(path: string): Promise<number | string> {
  const editor = process.env['VISUAL'] || process.env['EDITOR'] || 'vi';
  // Ctrl-C is the editor's while it has the terminal.
  const ignore = () => {};
  process.on('SIGINT', ignore);
  return new Promise<number | string>((resolve) => {
    const child = spawn('/bin/sh', ['-c', `${editor} "$@"`, 'sh', path], { stdio: 'inherit' });
    child.once('error', (error) => resolve(error.message));
    child.once('close', (code, signal) => resolve(code ?? signal ?? 'no exit code'));
  }).finally(() => process.off('SIGINT', ignore));
}

async function again(problem: string): Promise<boolean> {
  note(problem);
  const terminal = createInterface({ input: process.stdin, output: process.stderr });
  const closed = new Promise<string>((resolve) => terminal.once('close', () => resolve('n')));
  const answer = await Promise.race([terminal.question('Edit it again? [Y/n] '), closed]);
  terminal.close();
  return !/^\s*n/i.test(answer);
}
