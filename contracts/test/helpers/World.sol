// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {Test} from "forge-std/Test.sol";
import {MessageHashUtils} from "@openzeppelin/contracts/utils/cryptography/MessageHashUtils.sol";
import {Court} from "../../src/Court.sol";
import {Randomness} from "../../src/Randomness.sol";
import {Rounds} from "../../src/Rounds.sol";
import {Staking} from "../../src/Staking.sol";
import {TestToken} from "../../src/TestToken.sol";
import {Tribunal} from "../../src/Tribunal.sol";
import {
    Commitment,
    CommitmentProof,
    Job,
    Params,
    ROLE_VERIFIER,
    ROLE_WORKER,
    SettlementRecord,
    VERDICT_ACCEPT
} from "../../src/Types.sol";
import {DevParams} from "./DevParams.sol";
import {Headers} from "./Headers.sol";
import {Libraries} from "./Libraries.sol";
import {Transcripts} from "./Transcripts.sol";
import {Trees} from "./Trees.sol";

/// @notice Deployed contracts with the devnet parameters, the toy model, six operators, a scheduler and a client.
abstract contract World is Test {
    using Transcripts for Transcripts.Transcript;

    uint256 internal constant STAKE = 1000 ether;
    uint256 internal constant OPERATORS = 6;
    uint256 internal constant CLIENT_KEY = 0xC1;
    uint128 internal constant INPUT_PRICE = 3 ether;
    uint128 internal constant OUTPUT_PRICE = 5 ether;
    uint64 internal constant MARGIN_Q24 = 1 << 22; // 0.25
    uint64 internal constant TOLERANCE_Q40 = 1 << 30; // relative difference 2^-10
    address internal constant BURN = 0x000000000000000000000000000000000000dEaD;

    Params internal params = DevParams.load();
    Libraries internal libraries = Libraries(deployCode("Libraries.sol:Libraries"));
    TestToken internal token;
    Staking internal staking;
    Randomness internal randomness;
    Rounds internal rounds;
    Court internal court;
    Tribunal internal tribunal;
    bytes32 internal modelId;
    address internal client = vm.addr(CLIENT_KEY);
    address internal scheduler = makeAddr("scheduler");
    address internal challenger = makeAddr("challenger");
    address internal worker = vm.addr(operatorKey(0));
    address internal verifier = vm.addr(operatorKey(1));

    function setUp() public virtual {
        vm.chainId(31337);
        vm.roll(100);
        // From the artifacts: `new` would compile every contract again into every test.
        token = TestToken(deployCode("TestToken.sol:TestToken"));
        staking = Staking(deployCode("Staking.sol:Staking", abi.encode(token, params)));
        randomness =
            Randomness(deployCode("Randomness.sol:Randomness", abi.encode(params.randomnessDelayBlocks)));
        rounds = Rounds(deployCode("Rounds.sol:Rounds", abi.encode(token, staking, randomness, params)));
        court = Court(deployCode("Court.sol:Court", abi.encode(token, staking, randomness, rounds, params)));
        tribunal = Tribunal(deployCode("Tribunal.sol:Tribunal", abi.encode(token, staking, rounds, params)));
        staking.setCourts(address(court), address(tribunal));
        rounds.setCourts(address(court), address(tribunal));
        modelId = staking.registerModel(Transcripts.spec(MARGIN_Q24, TOLERANCE_Q40));
        for (uint256 i; i < OPERATORS; ++i) {
            address operator = vm.addr(operatorKey(i));
            fund(operator, STAKE, address(staking));
            vm.prank(operator);
            staking.registerOperator(modelId, STAKE, "http://operator");
        }
        fund(scheduler, STAKE, address(staking));
        vm.prank(scheduler);
        staking.registerScheduler(STAKE, "http://scheduler", new bytes(33));
        fund(client, 1000 ether, address(rounds));
        vm.prank(client);
        rounds.depositEscrow(scheduler, 1000 ether);
        fund(challenger, 10 * params.disputeBond, address(court));
        vm.prank(challenger);
        token.approve(address(tribunal), type(uint256).max);
        vm.roll(block.number + params.epochBlocks);
    }

    function operatorKey(uint256 index) internal pure returns (uint256) {
        return 0xA0 + index;
    }

    function fund(address account, uint256 amount, address spender) internal {
        token.mint(account, amount);
        vm.prank(account);
        token.approve(spender, type(uint256).max);
    }

    // --- jobs ---

    function newJob(uint256 nonce) internal view returns (Job memory job) {
        job.client = client;
        job.scheduler = scheduler;
        job.modelId = modelId;
        job.promptTokens = Transcripts.PROMPT;
        job.maxOutputTokens = Transcripts.OUTPUT;
        job.topPPpm = 1_000_000;
        job.seed = 7;
        (job.inputPrice, job.outputPrice) = (INPUT_PRICE, OUTPUT_PRICE);
        job.verifiers = 1;
        job.deadline = uint64(block.timestamp + 1000);
        job.nonce = nonce;
    }

    function signJob(Job memory job, uint256 key) internal view returns (bytes memory) {
        return sign(rounds.jobId(job), key);
    }

    function sign(bytes32 digest, uint256 key) internal pure returns (bytes memory) {
        (uint8 v, bytes32 r, bytes32 s) = vm.sign(key, digest);
        return abi.encodePacked(r, s, v);
    }

    /// @notice What the operator `index` signs for this transcript; the proof is that of a round of one job.
    function commit(Job memory job, Transcripts.Transcript memory t, uint8 role, uint256 index)
        internal
        view
        returns (CommitmentProof memory p)
    {
        bytes32 jobId = rounds.jobId(job);
        address operator = vm.addr(operatorKey(index));
        p.commitment = Commitment({
            jobId: jobId,
            role: role,
            attempt: 0,
            jobRoot: t.jobRoot(jobId, operator, modelId),
            promptTokens: Transcripts.PROMPT,
            outputTokens: Transcripts.OUTPUT,
            finishReason: 1,
            operator: operator
        });
        p.parts = t.parts();
        p.signature = sign(digestOf(p.commitment), operatorKey(index));
    }

    function digestOf(Commitment memory c) internal view returns (bytes32) {
        return MessageHashUtils.toTypedDataHash(rounds.domainSeparator(), libraries.commitmentHash(c));
    }

    function leafOf(CommitmentProof memory p) internal view returns (bytes32) {
        return Trees.roundLeaf(digestOf(p.commitment), p.commitment.operator);
    }

    function newRecord(Job memory job, address worker_) internal view returns (SettlementRecord memory r) {
        r.jobId = rounds.jobId(job);
        r.client = job.client;
        r.worker = worker_;
        (r.promptTokens, r.outputTokens) = (Transcripts.PROMPT, Transcripts.OUTPUT);
        r.outcome = VERDICT_ACCEPT;
        r.workerFee = 2 * INPUT_PRICE + 2 * OUTPUT_PRICE;
        r.verifierFee = uint128(r.workerFee * params.verifierFeeBps / 10_000);
        r.schedulerFee = uint128(r.workerFee * params.schedulerFeeBps / 10_000);
        r.verifiers = new address[](1);
        r.verifiers[0] = verifier;
        r.verdicts = new uint8[](1);
        r.verdicts[0] = VERDICT_ACCEPT;
    }

    function feesOf(SettlementRecord memory r) internal pure returns (uint128) {
        return uint128(r.workerFee + r.verifierFee * r.verifiers.length + r.schedulerFee);
    }

    // --- rounds of one job ---

    /// @notice Commit, and with a verifier's commitment also verify, a round of one job.
    function openRound(CommitmentProof memory ofWorker, CommitmentProof memory ofVerifier)
        internal
        returns (uint256 roundId)
    {
        roundId = openRound(ofWorker);
        verifyRound(roundId, leafOf(ofVerifier), 1);
    }

    function openRound(CommitmentProof memory ofWorker) internal returns (uint256 roundId) {
        bytes32 root = leafOf(ofWorker);
        vm.prank(scheduler);
        roundId = rounds.commitRound(modelId, root, 1);
    }

    function verifyRound(uint256 roundId, bytes32 root, uint64 count) internal {
        poke(rounds.round(roundId).randomnessVerifiers);
        vm.prank(scheduler);
        rounds.commitVerifications(roundId, root, count);
    }

    function settleRound(uint256 roundId, SettlementRecord memory record, uint128 total) internal {
        settleRound(roundId, Trees.recordLeaf(record), total);
    }

    function settleRound(uint256 roundId, bytes32 root, uint128 total) internal {
        poke(rounds.round(roundId).randomnessPositions);
        vm.prank(scheduler);
        rounds.settleRound(roundId, root, total);
    }

    function passWindow(uint256 roundId) internal {
        vm.roll(uint256(rounds.round(roundId).finalBlock) + 1);
    }

    /// @notice The honest pair: worker (operator 0) and verifier (operator 1) commit the same transcript.
    function honestRound(Job memory job) internal returns (uint256 roundId) {
        Transcripts.Transcript memory t = Transcripts.honest();
        return openRound(commit(job, t, ROLE_WORKER, 0), commit(job, t, ROLE_VERIFIER, 1));
    }

    /// @notice Make a request's randomness known through the header of its block.
    function poke(uint256 id) internal {
        uint256 target = randomness.targetBlock(id);
        if (block.number <= target) vm.roll(target + 1);
        bytes memory header = Headers.build(target, keccak256(abi.encode("mix", id)));
        vm.setBlockhash(target, keccak256(header));
        randomness.poke(id, header);
    }

    function none() internal pure returns (bytes32[] memory) {
        return new bytes32[](0);
    }
}
