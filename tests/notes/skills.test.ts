import { chmodSync, mkdirSync, rmSync, symlinkSync, utimesSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { parseFrontMatter } from '../../src/base/front-matter.ts';
import { skillsSection } from '../../src/core/prompt/model-request.ts';
import { NO_NOTES } from '../../src/protocol/workspace/memory-notes.ts';
import { openSkillStore } from '../../src/store/index.ts';
import { setup } from './notes-setup.ts';

const skill = (name: string, description = `How ${name} is done`, body = `# ${name}\n\nFirst this, then that.\n`) =>
  `---\nname: ${name}\ndescription: ${description}\n---\n\n${body}`;

test.each([
  [
    'plain values, comments and unknown keys',
    'name: a\ndescription: Makes b # really\nlicense: MIT\ntools:\n  - x\n  name: no',
    { name: 'a', description: 'Makes b' },
  ],
  [
    'quoted values',
    `name: 'it''s'\ndescription: "say \\"a: b\\" # not a comment" # one`,
    { name: "it's", description: 'say "a: b" # not a comment' },
  ],
  ['folded blocks', 'description: >-\n  one\n  two\n\n  three\nname: a', { name: 'a', description: 'one two\nthree' }],
  ['kept blocks', 'name: a\ndescription: |\n  one\n    two\n  three', { name: 'a', description: 'one\n  two\nthree' }],
  ['values that go on in the next line', 'name: a\ndescription: one\n  two', { name: 'a', description: 'one two' }],
  ['Chinese', 'name: 报税\ndescription: 年度：申报', { name: '报税', description: '年度：申报' }],
])('front matter with %s is read', (_, head, fields) => {
  const read = parseFrontMatter(`---\n${head}\n---\nbody\n---\n`);
  expect(read).toMatchObject({ fields, body: 'body\n---\n' });
  expect(parseFrontMatter(`\ufeff---\r\n${head.replaceAll('\n', '\r\n')}\r\n---\r\nbody`)).toMatchObject({ fields });
});

test('a text without a head, or whose head never ends, has no front matter', () => {
  for (const text of ['', 'name: a', '---\nname: a\n', ' ---\nname: a\n---'])
    expect(parseFrontMatter(text)).toBeUndefined();
});

test('skills that hold are listed by name, and each that does not is named with the reason', () => {
  const on = setup();
  on.put('skills/report/SKILL.md', skill('report'));
  on.put('skills/报税/SKILL.md', skill('报税'));
  on.put('skills/README.md', 'no skill');
  on.put('skills/.git/SKILL.md', skill('.git'));
  on.put('skills/empty/other.md', '');
  on.put('skills/headless/SKILL.md', '# Headless');
  on.put('skills/misnamed/SKILL.md', skill('else'));
  on.put('skills/mute/SKILL.md', '---\nname: mute\n---\n');
  on.put('skills/odd name/SKILL.md', skill('odd name'));
  on.put('skills/huge/SKILL.md', skill('huge', 'x', 'x'.repeat(300_000)));
  mkdirSync(join(on.root, 'skills/folder/SKILL.md'), { recursive: true });
  symlinkSync(join(on.root, 'skills/report'), join(on.root, 'skills/linked'));
  const { skills, broken } = openSkillStore([join(on.root, 'skills')]).list();
  expect(skills.map(({ name }) => name)).toEqual(['report', '报税']);
  const why = (name: string) => broken.find((text) => text.includes(`skills/${name} `));
  expect(why('empty')).toContain('no SKILL.md');
  expect(why('headless')).toContain('front matter');
  expect(why('misnamed')).toContain('its name is "else"');
  expect(why('mute')).toContain('no description');
  expect(why('odd name')).toContain('at most 64 letters');
  expect(why('huge')).toMatch(/has \d+ bytes/);
  expect(why('folder')).toContain('not a regular file');
  expect(why('linked')).toContain('it is a link');
  expect(broken).toHaveLength(8);
});

test.skipIf(process.getuid?.() === 0)('a skill that may not be read is named, and the others are there', () => {
  const on = setup();
  on.put('skills/good/SKILL.md', skill('good'));
  chmodSync(on.put('skills/closed/SKILL.md', skill('closed')), 0o000);
  const { skills, broken } = openSkillStore([join(on.root, 'skills')]).list();
  expect([skills.length, broken.length]).toEqual([1, 1]);
});

test('a workspace without skills has none and complains of nothing; a file in their place is reported', () => {
  const on = setup();
  const skills = openSkillStore([join(on.root, 'skills')]);
  expect(skills.list()).toEqual({ skills: [], broken: [] });
  on.put('skills', 'a file');
  expect(skills.list()).toMatchObject({ skills: [], broken: [expect.stringContaining('cannot be read')] });
});

test('a skill that is changed, added or removed is noticed at the next look', () => {
  const on = setup();
  const skills = openSkillStore([join(on.root, 'skills')]);
  const file = on.put('skills/a/SKILL.md', skill('a', 'one'));
  utimesSync(file, 1, 1);
  expect(skills.list().skills).toMatchObject([{ name: 'a', description: 'one' }]);
  on.put('skills/a/SKILL.md', skill('a', 'two'));
  on.put('skills/b/SKILL.md', skill('b', 'new'));
  expect(skills.list().skills.map(({ description }) => description)).toEqual(['two', 'new']);
  rmSync(join(on.root, 'skills/a'), { recursive: true });
  expect(skills.list().skills.map(({ name }) => name)).toEqual(['b']);
});

test('skills of .agents/skills are there too, and of two with one name that of skills/ counts', async () => {
  const on = setup();
  on.put('skills/a/SKILL.md', skill('a', 'mine'));
  on.put('.agents/skills/a/SKILL.md', skill('a', 'theirs'));
  on.put('.agents/skills/b/SKILL.md', skill('b', 'added'));
  const { reported, use } = on.session('demo');
  expect(reported().skills).toMatchObject([{ description: 'mine' }, { description: 'added' }]);
  expect(on.complaints).toEqual([expect.stringContaining('.agents/skills/a is left out')]);
  expect((await use('skill', { name: 'b' })).text).toContain(`in ${on.root}/.agents/skills/b:`);
  expect((await use('read_file', { path: join(on.root, '.agents/skills/b/SKILL.md') })).text).toContain('added');
});

const listed = (skills: Array<{ name: string; description: string }>, tools?: string[]) =>
  skillsSection({ ...NO_NOTES, skills }, tools && { tools }, 'en');

test('the prompt lists fifty skills in 300 characters each and says how many are left out', () => {
  const many = Array.from({ length: 53 }, (_, n) => ({ name: `s${n}`, description: `${'漢\n'.repeat(400)}` }));
  const lines = listed(many).split('\n');
  expect(lines.filter((line) => line.startsWith('- s'))).toHaveLength(50);
  expect(lines.every((line) => [...line].length < 320)).toBe(true);
  expect(lines.at(-1)).toBe('[3 more skills are there and not shown]');
  expect(listed([])).toBe('');
});

test('an agent without the tool is not told of skills', () => {
  const one = [{ name: 'a', description: 'b' }];
  expect(listed(one, ['shell', 'skill'])).toContain('- a: b');
  expect(listed(one, ['shell'])).toBe('');
});

test('a skill is opened by its name: its body without the head, and the files beside it', async () => {
  const on = setup();
  on.put('skills/report/SKILL.md', skill('report'));
  on.put('skills/report/scripts/make.sh', 'echo made');
  on.put('skills/report/form.bin', 'a\0b');
  const { use, reported } = on.session('demo');
  expect(reported().withheldTools).toEqual([]);
  const { ok, text } = await use('skill', { name: 'report' });
  expect(ok).toBe(true);
  expect(text).toMatch(/^# report\n\nFirst this, then that\.\n\n\n\[Files of this skill, in .*\/skills\/report:\]\n/);
  expect(text).not.toContain('description:');
  expect(text).toContain('- scripts/make.sh  9 bytes');
  expect(await use('skill', { name: 'report', file: 'scripts/make.sh' })).toEqual({ ok: true, text: 'echo made' });
  expect((await use('skill', { name: 'report', file: 'form.bin' })).text).toContain('is binary');
  expect((await use('skill', { name: 'report', file: 'gone.md' })).text).toContain('is not there');
  expect((await use('skill', { name: 'reprot' })).text).toBe('No skill `reprot`. There are: report.');
});

test('the file tools read the files of skills and never write there', async () => {
  const on = setup();
  const path = on.put('skills/report/scripts/make.sh', 'echo made');
  const { use } = on.session('demo');
  expect(await use('read_file', { path })).toEqual({ ok: true, text: 'echo made' });
  expect(await use('write_file', { path, content: 'echo evil' })).toMatchObject({ ok: false });
  expect(on.text('skills/report/scripts/make.sh')).toBe('echo made');
});

test('no path and no link leads out of a skill', async () => {
  const on = setup();
  const secret = on.put('secret.txt', 'mine');
  on.put('skills/a/SKILL.md', skill('a'));
  on.put('skills/b/SKILL.md', skill('b'));
  symlinkSync(secret, join(on.root, 'skills/a/link'));
  symlinkSync(on.root, join(on.root, 'skills/a/up'));
  const { use } = on.session('demo');
  for (const file of [
    '../b/SKILL.md',
    '../../secret.txt',
    secret,
    'link',
    'up/secret.txt',
    'x/../../b/SKILL.md',
    'a\0b',
  ]) {
    const answer = { ok: false, text: expect.stringContaining('leads out of the skill') };
    expect(await use('skill', { name: 'a', file }), file).toMatchObject(answer);
  }
  for (const name of ['../skills/a', '..', '', 'a/../b']) {
    expect(await use('skill', { name }), name).toMatchObject({ ok: false });
  }
});

test('without a skill the tool is withheld, and a broken one is reported once, however many sessions there are', () => {
  const on = setup();
  on.put('skills/headless/SKILL.md', '# Headless');
  expect(on.session('one').reported().withheldTools).toEqual(['skill']);
  on.session('two').reported();
  on.session('one').reported();
  expect(on.complaints).toEqual([expect.stringContaining('headless is left out')]);
});
