import * as fs from 'node:fs';
import { join } from 'node:path';
import { eventually, expectAccessible, useBrowser } from './page-setup.ts';

const webTest = useBrowser();
const shell = (command: string) => [{ id: 'c', name: 'shell', args: JSON.stringify({ command }) }];

webTest(
  'a step says which files it changed and how, and they are restored as they were before it or undone with it',
  [
    { text: '[Step] Write\n[Step] Spoil', calls: shell("echo '<b>good</b>' > a.txt") },
    { text: '[Done]' },
    { text: 'Now the other.', calls: shell('echo spoilt > a.txt; echo x > new') },
    { text: '[Done] All is done.' },
  ],
  async (setup) => {
    await setup.startDaemon();
    setup.on.sh('demo', 'mkdir -p inbox; echo Write it > inbox/1.md');
    await setup.on.file('demo', 'outbox/1.md');
    const read = (path: string) => fs.readFileSync(join(setup.on.session('demo'), 'work', path), 'utf8');
    const page = await setup.open({ hash: '#/s/demo' });
    const plan = page.getByRole('region', { name: 'Plan' });
    await plan.getByText('Spoil').click();
    await plan.getByText('Line by line').click();
    await eventually(() => plan.locator('.patch').textContent()).toContain('-<b>good</b>\n+spoilt\n');
    await expectAccessible(page);
    await plan.getByText('Restore the files as before this step').click();
    await plan.getByText('is changed back').waitFor();
    await plan.getByRole('button', { name: 'Restore', exact: true }).click();
    await plan.getByRole('group', { name: 'Restore these files?' }).getByRole('button', { name: 'Yes' }).click();
    await plan.getByText('The files are as they were then.').waitFor();
    await eventually(async () => [read('a.txt'), fs.existsSync(join(setup.on.session('demo'), 'work/new'))]).toEqual([
      '<b>good</b>\n',
      false,
    ]);
  },
);
