import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, onTestFinished } from 'vitest';
import { script } from '../../scripts/demo/browser.ts';
import { startInvestorSite } from '../../scripts/demo/investor-site.ts';
import { ground } from '../support/daemon.ts';
import { browserTest } from '../tools/browser-setup.ts';

browserTest('a real daemon brings reports from behind a cookie banner, and ends with its browser', async () => {
  const site = await startInvestorSite();
  onTestFinished(() => site.close());
  const on = ground();
  const permissions = [{ allow: `browser(${site.url}/*)` }];
  on.config({ sandbox: 'none', network: { allow_private: ['127.0.0.1'] }, permissions });
  writeFileSync(join(on.root, 'script.json'), JSON.stringify(script(site.url)));
  const daemon = await on.start(['--model', `scripted:${join(on.root, 'script.json')}`]);
  expect(await on.say('demo', '1.md', 'draw the results')).toContain('The chart is in work/chart.svg');
  expect(on.sh('demo', 'ls work/downloads | wc -l; head -c 4 work/chart.svg; wc -l < work/figures.csv')).toBe(
    '5\n<svg6\n',
  );
  expect([...site.consents]).toEqual(['refused']);
  const running = () =>
    on.sh('demo', `grep -l -a "[u]ser-data-dir=$PWD/browser" /proc/[0-9]*/cmdline 2>/dev/null | wc -l`);
  expect(Number(running())).toBeGreaterThan(0);
  expect(await daemon.kill('SIGTERM')).toBe(0);
  expect(Number(running())).toBe(0);
});
