// Written by `npm run docs`: changes with any file of the reducers. A snapshot of another version is not used.
export const REDUCER_VERSION = '766f1a4a0aee820d';
