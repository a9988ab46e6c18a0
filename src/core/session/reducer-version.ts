// Written by `npm run docs`: changes with any file of the reducers. A snapshot of another version is not used.
export const REDUCER_VERSION = '2d4735bb38f49c73';
