import type { Locator, Page } from 'playwright-core';
import { expect } from 'vitest';
import type { Step } from '../../src/protocol/session/plan.ts';
import { opened, received, started } from '../client/rig.ts';
import { eventually, expectAccessible, openSession, useBrowser } from './page-setup.ts';

const webTest = useBrowser();

const LONG = 'Check the totals against the bank statement, line by line, until each of them is found. '
  .repeat(4)
  .trim();
const STEPS = Array.from({ length: 40 }, (_, place): Step => {
  const step = { id: `s${place + 1}`, description: place === 2 ? LONG : `Step number ${place + 1}` };
  const at = (minute: number) => `2026-01-05T10:0${minute}:00.000Z`;
  if (place < 2)
    return { ...step, status: 'completed', evidence: 'x\n'.repeat(60), started_at: at(place), completed_at: at(3) };
  return { ...step, status: place === 2 ? 'running' : place === 3 ? 'failed' : 'pending' };
});

/** Runs in the page: what scrolls up and down within something else that does. */
const NESTED = `[...document.querySelectorAll('body *')].filter((one) => {
  const scrolls = (it) => /auto|scroll/.test(getComputedStyle(it).overflowY) && it.scrollHeight > it.clientHeight + 1;
  if (!scrolls(one) || one.matches('textarea')) return false;
  for (let around = one.parentElement; around; around = around.parentElement) if (scrolls(around)) return true;
  return false;
}).map((one) => one.outerHTML.slice(0, 100))`;

const boxOf = async (part: Locator) => {
  const box = await part.boundingBox();
  if (!box) throw new Error(`Expected to see ${part}.`);
  return box;
};

/** Whether all of it is on the screen. */
const isOnScreen = async (page: Page, part: Locator): Promise<boolean> => {
  const { y, height } = await boxOf(part);
  return y >= 0 && y + height <= (page.viewportSize()?.height ?? 0);
};

webTest(
  'from 1,100 px on the plan is beside the conversation in full height; below, one line on top opens it; a step is one line and opens in view',
  [],
  async (setup) => {
    const limits = { iterations: 9, step_iterations: 5 };
    await openSession(setup, [
      ...[opened, received('1.md'), started('1.md')],
      { type: 'plan.started', id: 'p', goal: LONG, mode: 'linear', limits, steps: STEPS },
    ]);
    const page = await setup.open({ hash: '#/s/demo' });
    const plan = page.getByRole('region', { name: 'Plan' });
    const log = page.getByRole('log');
    const line = page.getByRole('button', { name: /2\/40 Check the totals/ });
    for (const width of [1100, 1280, 1920]) {
      await page.setViewportSize({ width, height: 800 });
      const [beside, talk] = [await boxOf(plan), await boxOf(log)];
      expect(beside).toMatchObject({ y: 0, height: 800 });
      expect(beside.x).toBeGreaterThanOrEqual(talk.x + talk.width);
      expect(beside.width).toBeGreaterThanOrEqual(width * 0.28);
      expect(await line.count()).toBe(0);
    }
    for (const width of [390, 768, 1099]) {
      await page.setViewportSize({ width, height: 800 });
      await log.waitFor();
      expect(await plan.count()).toBe(0);
      expect((await boxOf(line)).y).toBeLessThan(120);
      await line.press('Enter');
      await plan.waitFor();
      expect(await log.count()).toBe(0);
      expect(await isOnScreen(page, line)).toBe(true);
      await line.press('Enter');
      await log.waitFor();
    }

    await page.setViewportSize({ width: 390, height: 800 });
    // One row for the header, and one for the message, which grows.
    expect((await boxOf(line)).y).toBeLessThan(60);
    const field = page.getByRole('textbox', { name: 'Message' });
    const composer = page.locator('form.composer');
    expect((await boxOf(composer)).height).toBeLessThan(60);
    await field.fill('one\ntwo\nthree\nfour');
    expect((await boxOf(composer)).height).toBeGreaterThan(100);
    await field.fill('');

    const rows = plan.locator('summary');
    for (const width of [1280, 390]) {
      await page.setViewportSize({ width, height: 800 });
      if (width === 390) await line.click();
      for (const { height } of await rows.evaluateAll((all) => all.map((one) => one.getBoundingClientRect())))
        expect(height).toBeLessThan(40);
      expect(await rows.allInnerTexts()).toContain('failed\nStep number 4');
      // The last one on the screen, so that there is no room below it.
      const places = await rows.evaluateAll((all) => all.map((one) => one.getBoundingClientRect().bottom));
      const last = rows.nth(places.findLastIndex((bottom) => bottom <= 800));
      await last.click();
      const entry = last.locator('..');
      await entry.getByText('is open and').waitFor();
      await eventually(() => isOnScreen(page, entry)).toBe(true);
      await entry.getByRole('button', { name: 'Reword' }).click();
      for (const name of ['Save', 'Discard'])
        await eventually(() => isOnScreen(page, entry.getByRole('button', { name }))).toBe(true);
      await entry.getByRole('button', { name: 'Discard' }).click();
      await last.click();
    }
    await rows.first().click();
    await plan.getByRole('button', { name: 'Show all 61 lines' }).waitFor();
    expect(await page.evaluate(NESTED)).toEqual([]);
    await expectAccessible(page);
    expect(await page.evaluate(NESTED)).toEqual([]);
  },
);
